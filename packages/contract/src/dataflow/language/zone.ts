// Time zones: local time of an instant, and the instant of a local time. Rules come from the platform's database, as an offset per quarter
// of an hour, which is cached.

export interface Zone {
  readonly name: string
  /** Seconds east of UTC at an instant, in whole seconds since 1970. */
  offsetAt(seconds: number): number
  /** Abbreviation (`CET`), or the offset without one. */
  abbreviationAt(seconds: number): string
}

/** IANA name, `UTC`, or `±HH:MM`; undefined if the zone does not exist. */
export function parseZone(name: string): Zone | undefined {
  if (/^(?:utc|gmt|z|etc\/utc)$/i.test(name)) return fixedZone('UTC', 0)
  const offset = /^([+-])([0-9]{2}):([0-9]{2})$/.exec(name)
  if (offset === null) return ianaZone(name)
  const [, sign, hours, minutes] = offset
  if (Number(hours) > 18 || Number(minutes) > 59) return undefined
  return fixedZone(name, (Number(hours) * 60 + Number(minutes)) * (sign === '-' ? -60 : 60))
}

/** IANA names only, for schedules and windows. */
export const isIanaZone = (name: string): boolean => !/^[+-]/.test(name) && parseZone(name) !== undefined

const fixedZone = (name: string, offset: number): Zone => ({
  name,
  offsetAt: () => offset,
  abbreviationAt: () => (name === 'UTC' ? 'UTC' : shortOffset(offset)),
})

function ianaZone(name: string): Zone | undefined {
  const format = createFormat(name)
  if (format === undefined) return undefined
  const offsets = new Map<number, number>()
  const look = (seconds: number): number => offsetFrom(format, seconds)
  return {
    name,
    offsetAt: (seconds) => {
      const quarter = Math.floor(seconds / quarterSeconds)
      const offset = offsets.get(quarter)
      return offset ?? cacheOffset(offsets, look, quarter, seconds)
    },
    abbreviationAt: (seconds) => abbreviation(name, seconds) ?? shortOffset(look(seconds)),
  }
}

const quarterSeconds = 900
const offsetsMax = 10_000

/** Cached only if the offset is equal at both ends of the quarter: some historic changes were at odd minutes. */
function cacheOffset(kept: Map<number, number>, look: (seconds: number) => number, quarter: number, seconds: number): number {
  const start = look(quarter * quarterSeconds)
  if (start !== look((quarter + 1) * quarterSeconds)) return look(seconds)
  if (kept.size >= offsetsMax) kept.clear()
  kept.set(quarter, start)
  return start
}

function createFormat(timeZone: string): Intl.DateTimeFormat | undefined {
  try {
    return new Intl.DateTimeFormat('en-US', { timeZone, ...clockFields })
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

const clockFields = {
  calendar: 'iso8601',
  hourCycle: 'h23',
  era: 'short',
  year: 'numeric',
  month: 'numeric',
  day: 'numeric',
  hour: 'numeric',
  minute: 'numeric',
  second: 'numeric',
} as const

function offsetFrom(format: Intl.DateTimeFormat, seconds: number): number {
  const part: Record<string, string> = {}
  for (const { type, value } of format.formatToParts(seconds * 1000)) part[type] = value
  const localDate = new Date(0)
  const year = Number(part['year'])
  localDate.setUTCFullYear(part['era']?.startsWith('B') === true ? 1 - year : year, Number(part['month']) - 1, Number(part['day']))
  localDate.setUTCHours(Number(part['hour']), Number(part['minute']), Number(part['second']))
  return localDate.getTime() / 1000 - seconds
}

/** Abbreviations depend on the locale: each of these knows those of its region. */
const locales = ['en-US', 'en-GB', 'en-AU', 'en-IN', 'en-ZA']

function abbreviation(timeZone: string, seconds: number): string | undefined {
  for (const locale of locales) {
    const parts = new Intl.DateTimeFormat(locale, { timeZone, timeZoneName: 'short' }).formatToParts(seconds * 1000)
    const text = parts.find(({ type }) => type === 'timeZoneName')?.value
    if (text !== undefined && !/[+-]/.test(text)) return text
  }
  return undefined
}

function shortOffset(offset: number): string {
  const minutes = Math.floor(Math.abs(offset) / 60)
  const text = `${offset < 0 ? '-' : '+'}${String(Math.floor(minutes / 60)).padStart(2, '0')}`
  return minutes % 60 === 0 ? text : text + String(minutes % 60).padStart(2, '0')
}

/** The instant at which the zone shows `local` (seconds, read as UTC): the first of a repeated hour; a skipped hour moves forward. */
export function instantOfLocal(zone: Zone, local: number): number {
  const before = zone.offsetAt(local - 86_400)
  const after = zone.offsetAt(local + 86_400)
  const early = local - Math.max(before, after)
  const later = local - Math.min(before, after)
  if (zone.offsetAt(early) === local - early) return early
  return zone.offsetAt(later) === local - later ? later : local - before
}
