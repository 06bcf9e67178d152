// Parses times in payloads: RFC3339 and looser forms, numbers of seconds or milliseconds. Fractions keep their digits.
import { isNumericText, plainDecimal } from '@brokkr/contract/dataflow/language/decimal.ts'
import { type Instant, toUtcSeconds } from '@brokkr/contract/dataflow/language/instant.ts'
import { instantOfLocal, type Zone } from '@brokkr/contract/dataflow/language/zone.ts'

/** Range of dates that the platform can print. */
const secondsMax = 8_640_000_000_000

/** Undefined if the text is no time. A time without a zone is read in `zone`. */
export function readTime(text: string, zone: Zone): Instant | undefined {
  const instant = isNumericText(text) ? readNumber(text) : readClock(text, zone)
  return instant !== undefined && Math.abs(instant.seconds) <= secondsMax ? instant : undefined
}

/** Milliseconds from 1e11 on, else seconds. */
function readNumber(text: string): Instant | undefined {
  const [whole = '', decimals = ''] = plainDecimal(text).split('.')
  if (whole.length > 20 || whole.includes('e')) return undefined
  const isMs = Math.abs(Number(whole)) >= 1e11
  const unit = 10n ** BigInt(decimals.length + (isMs ? 3 : 0))
  const scaled = BigInt(whole + decimals)
  const rest = ((scaled % unit) + unit) % unit
  const digits = unit === 1n ? '' : rest.toString().padStart(unit.toString().length - 1, '0')
  return { seconds: Number((scaled - rest) / unit), fraction: digits.replace(/0+$/, '') }
}

const clock =
  /^([0-9]{4})-([0-9]{2})-([0-9]{2})(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,40}))?)?(?: ?([Zz]|[+-][0-9]{2}(?::?[0-9]{2})?))?)?$/

function readClock(text: string, zone: Zone): Instant | undefined {
  const match = text.length > 80 ? null : clock.exec(text)
  if (match === null) return undefined
  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = '', offset] = match
  const local = toUtcSeconds(Number(year), Number(month), Number(day), Number(hour), Number(minute), Number(second))
  if (local === undefined) return undefined
  return { seconds: offset === undefined ? instantOfLocal(zone, local) : local - offsetSeconds(offset), fraction }
}

function offsetSeconds(offset: string): number {
  if (/^z$/i.test(offset)) return 0
  const digits = offset.slice(1).replace(':', '').padEnd(4, '0')
  const seconds = Number(digits.slice(0, 2)) * 3600 + Number(digits.slice(2)) * 60
  return offset.startsWith('-') ? -seconds : seconds
}
