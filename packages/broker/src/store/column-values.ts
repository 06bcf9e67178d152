// Text of a column → value, with full precision: a timestamp as RFC 3339 text with six digits, a bigint as an exact number.
import pg from 'pg'

export type ParseColumn = (text: string) => unknown

export const parserOf = (typeId: number): ParseColumn => parsers.get(typeId) ?? (pg.types.getTypeParser(typeId, 'text') as ParseColumn)

const parsers = new Map<number, ParseColumn>([
  [pg.types.builtins.TIMESTAMPTZ, rfc3339],
  [pg.types.builtins.INT8, exactNumber],
])

/** `2026-01-02 03:04:05.1+00` → `2026-01-02T03:04:05.100000Z`; connections run in UTC, so the offset is always +00. */
function rfc3339(text: string): string {
  const fraction = text.slice(20, -3)
  return `${text.slice(0, 10)}T${text.slice(11, 19)}.${fraction.padEnd(6, '0')}Z`
}

function exactNumber(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new RangeError(`integer ${text} does not fit a JSON number exactly`)
  return value
}
