// Reads the subset of RFC 5545 recurrence rules that freeze windows use. Pure; the evaluator is in the pipelines program.

export const frequencies = ['DAILY', 'WEEKLY', 'MONTHLY', 'YEARLY'] as const
export type Frequency = (typeof frequencies)[number]

/** Monday is 0. `ordinal` null: every such weekday of the period. */
export interface WeekdayRule {
  readonly ordinal: number | null
  readonly weekday: number
}

/** Local seconds are read as if UTC; `utc` ones are an instant. Both are inclusive. */
export interface Until {
  readonly kind: 'local' | 'utc'
  readonly seconds: number
}

export interface Recurrence {
  readonly frequency: Frequency
  readonly interval: number
  readonly byDay: readonly WeekdayRule[]
  readonly byMonth: readonly number[]
  readonly byMonthDay: readonly number[]
  readonly count: number | null
  readonly until: Until | null
  readonly weekStart: number
}

export type RecurrenceText = { readonly ok: true; readonly rule: Recurrence } | { readonly ok: false; readonly problem: string }

const weekdays = ['MO', 'TU', 'WE', 'TH', 'FR', 'SA', 'SU'] as const

class Unreadable extends Error {}

/** `FREQ=WEEKLY;BYDAY=MO,FR`, with or without a leading `RRULE:`. */
export function parseRecurrence(text: string): RecurrenceText {
  try {
    return { ok: true, rule: readRule(text) }
  } catch (error) {
    if (error instanceof Unreadable) return { ok: false, problem: error.message }
    throw error
  }
}

function readRule(text: string): Recurrence {
  const parts = readParts(text.replace(/^RRULE:/i, ''))
  const frequency = frequencies.find((name) => name === parts.get('FREQ')?.toUpperCase())
  if (frequency === undefined) throw new Unreadable(`FREQ must be one of ${frequencies.join(', ')}`)
  const rule: Recurrence = {
    frequency,
    interval: readNumber(parts, 'INTERVAL', 1, 1, 10_000) ?? 1,
    byDay: readList(parts, 'BYDAY', readWeekday),
    byMonth: readList(parts, 'BYMONTH', (item) => toInteger(item, 'BYMONTH', 1, 12)),
    byMonthDay: readList(parts, 'BYMONTHDAY', (item) => toInteger(item, 'BYMONTHDAY', -31, 31)),
    count: readNumber(parts, 'COUNT', null, 1, 100_000),
    until: readUntil(parts.get('UNTIL')),
    weekStart: parts.has('WKST') ? toWeekday(parts.get('WKST')!) : 0,
  }
  checkCombination(rule)
  return rule
}

const known = new Set(['FREQ', 'INTERVAL', 'BYDAY', 'BYMONTH', 'BYMONTHDAY', 'COUNT', 'UNTIL', 'WKST'])

function readParts(text: string): Map<string, string> {
  const parts = new Map<string, string>()
  for (const part of text.split(';').filter((each) => each !== '')) {
    const [name, value, more] = part.split('=')
    const key = (name ?? '').toUpperCase()
    if (value === undefined || value === '' || more !== undefined) throw new Unreadable(`"${part}" is not NAME=value`)
    if (!known.has(key)) throw new Unreadable(`${key} is not supported`)
    if (parts.has(key)) throw new Unreadable(`${key} appears twice`)
    parts.set(key, value)
  }
  return parts
}

function checkCombination(rule: Recurrence): void {
  if (rule.count !== null && rule.until !== null) throw new Unreadable('COUNT and UNTIL exclude each other')
  if (rule.byMonthDay.includes(0)) throw new Unreadable('BYMONTHDAY must not be 0')
  const hasOrdinal = rule.byDay.some(({ ordinal }) => ordinal !== null)
  if (hasOrdinal && rule.frequency !== 'MONTHLY' && rule.frequency !== 'YEARLY')
    throw new Unreadable('BYDAY takes an ordinal with MONTHLY and YEARLY only')
  if (rule.frequency === 'WEEKLY' && rule.byMonthDay.length > 0) throw new Unreadable('BYMONTHDAY is not allowed with WEEKLY')
}

function readList<T>(parts: Map<string, string>, name: string, read: (item: string) => T): T[] {
  const items = parts.get(name)?.split(',') ?? []
  if (items.length > 366) throw new Unreadable(`${name} has more than 366 entries`)
  return items.map(read)
}

function readNumber<T extends number | null>(parts: Map<string, string>, name: string, fallback: T, min: number, max: number): number | T {
  const text = parts.get(name)
  return text === undefined ? fallback : toInteger(text, name, min, max)
}

function toInteger(text: string, name: string, min: number, max: number): number {
  const value = /^[+-]?\d{1,6}$/.test(text) ? Number(text) : Number.NaN
  if (!(value >= min && value <= max)) throw new Unreadable(`${name} must be a number from ${min} to ${max}`)
  return value
}

function readWeekday(text: string): WeekdayRule {
  const match = /^([+-]?\d{1,2})?([A-Z]{2})$/i.exec(text)
  if (match === null) throw new Unreadable(`BYDAY "${text}" is not a weekday`)
  const ordinal = match[1] === undefined ? null : toInteger(match[1], 'BYDAY', -53, 53)
  if (ordinal === 0) throw new Unreadable('BYDAY must not have the ordinal 0')
  return { ordinal, weekday: toWeekday(match[2]!) }
}

function toWeekday(text: string): number {
  const index = weekdays.findIndex((name) => name === text.toUpperCase())
  if (index < 0) throw new Unreadable(`"${text}" is not one of ${weekdays.join(', ')}`)
  return index
}

/** A date alone includes its whole day. */
function readUntil(text: string | undefined): Until | null {
  if (text === undefined) return null
  const match = /^(\d{4})(\d{2})(\d{2})(?:T(\d{2})(\d{2})(\d{2})(Z?))?$/.exec(text)
  const local =
    match === null
      ? undefined
      : parseLocalTime(`${match[1]}-${match[2]}-${match[3]}T${match[4] ?? '23'}:${match[5] ?? '59'}:${match[6] ?? '59'}`)
  if (match === null || local === undefined) throw new Unreadable(`UNTIL "${text}" is not YYYYMMDD or YYYYMMDDTHHMMSS with or without Z`)
  return { kind: match[7] === 'Z' ? 'utc' : 'local', seconds: local }
}

/** Seconds of `YYYY-MM-DDTHH:MM:SS` read as if UTC; undefined when there is no such day or time. */
export function parseLocalTime(text: string): number | undefined {
  if (!/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}$/.test(text)) return undefined
  const ms = Date.parse(`${text}Z`)
  return Number.isNaN(ms) || new Date(ms).toISOString().slice(0, 19) !== text ? undefined : ms / 1000
}
