// Instants as text. Fractions of a second stay text, so nothing is rounded.

export interface Instant {
  /** Whole seconds since 1970 in UTC; the fraction counts forward, also before 1970. */
  readonly seconds: number
  /** Digits after the point, as written; empty for none. */
  readonly fraction: string
}

const pattern = /^([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))$/

/** A strict RFC3339 time, or undefined. */
export function parseInstant(text: string): Instant | undefined {
  // Most texts are not times: two characters decide before the expression is tried.
  if (text.length < 20 || text.charCodeAt(4) !== 45 || text.charCodeAt(7) !== 45) return undefined
  const match = pattern.exec(text)
  if (match === null) return undefined
  const [, year, month, day, hour, minute, second, fraction = '', sign, offsetHour = '0', offsetMinute = '0'] = match
  const local = toUtcSeconds(Number(year), Number(month), Number(day), Number(hour), Number(minute), Number(second))
  if (local === undefined || Number(offsetHour) > 23 || Number(offsetMinute) > 59) return undefined
  const offset = (Number(offsetHour) * 60 + Number(offsetMinute)) * 60
  return { seconds: sign === '-' ? local + offset : local - offset, fraction }
}

/** Seconds since 1970 of a date and time read as UTC; undefined if the date does not exist. */
export function toUtcSeconds(
  ...[year, month, day, hour, minute, second]: [number, number, number, number, number, number]
): number | undefined {
  if (hour > 23 || minute > 59 || second > 59) return undefined
  const date = new Date(0)
  date.setUTCFullYear(year, month - 1, day)
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return undefined
  return date.getTime() / 1000 + hour * 3600 + minute * 60 + second
}

/** Negative, zero or positive. */
export function compareInstants(left: Instant, right: Instant): number {
  if (left.seconds !== right.seconds) return left.seconds - right.seconds
  const width = Math.max(left.fraction.length, right.fraction.length)
  const [a, b] = [left.fraction.padEnd(width, '0'), right.fraction.padEnd(width, '0')]
  return a === b ? 0 : a < b ? -1 : 1
}

/** RFC3339 in UTC; milliseconds only if not zero. */
export function instantText(date: Date): string {
  const text = date.toISOString()
  return text.endsWith('.000Z') ? `${text.slice(0, -5)}Z` : text
}
