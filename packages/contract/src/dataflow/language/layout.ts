// Go layouts for times (`02 Jan 2006 15:04`) and their names. Printing only: a layout is compiled to a list of pieces.
import type { Zone } from './zone.ts'

/** Names as users write them, in any case. */
export const layoutNames: Readonly<Record<string, string>> = {
  RFC3339: '2006-01-02T15:04:05Z07:00',
  RFC3339Nano: '2006-01-02T15:04:05.999999999Z07:00',
  RFC1123: 'Mon, 02 Jan 2006 15:04:05 MST',
  RFC1123Z: 'Mon, 02 Jan 2006 15:04:05 -0700',
  RFC822: '02 Jan 06 15:04 MST',
  RFC850: 'Monday, 02-Jan-06 15:04:05 MST',
  ANSIC: 'Mon Jan _2 15:04:05 2006',
  Kitchen: '3:04PM',
  DateTime: '2006-01-02 15:04:05',
  DateOnly: '2006-01-02',
  TimeOnly: '15:04:05',
}

/** Local date and time in a zone. */
interface LocalTime {
  readonly date: Date // its UTC fields are the zone's local ones
  readonly nanos: number
  readonly offset: number
  readonly abbreviation: () => string
}
type Piece = (time: LocalTime) => string

/** Prints an instant: whole seconds since 1970 and nanoseconds. Undefined if the text has no layout element. */
export function compileLayout(layout: string): ((zone: Zone, seconds: number, nanos: number) => string) | undefined {
  const pieces = parsePieces(layout)
  if (!pieces.some((piece) => typeof piece !== 'string')) return undefined
  return (zone, seconds, nanos) => {
    const offset = zone.offsetAt(seconds)
    const localTime = { date: new Date((seconds + offset) * 1000), nanos, offset, abbreviation: () => zone.abbreviationAt(seconds) }
    return pieces.map((piece) => (typeof piece === 'string' ? piece : piece(localTime))).join('')
  }
}

// Longer elements first: `2006` before `2`.
const elements =
  /January|Jan|Monday|Mon|MST|2006|002|01|02|03|04|05|06|15|1|2|3|4|5|__2|_2006|_2|PM|pm|(?:Z|-)07(?::00:00|0000|:00|00)?|[.,](?:0{1,9}|9{1,9})(?![0-9])/g

function parsePieces(layout: string): (string | Piece)[] {
  const pieces: (string | Piece)[] = []
  let end = 0
  for (const match of layout.matchAll(elements)) {
    pieces.push(layout.slice(end, match.index), toPiece(match[0]))
    end = match.index + match[0].length
  }
  return [...pieces, layout.slice(end)]
}

const months = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October', 'November', 'December']
const days = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']
const pad = (value: number, width: number, fill = '0'): string => String(value).padStart(width, fill)
const halfDay = (date: Date): number => date.getUTCHours() % 12 || 12

const piecesByElement: Readonly<Record<string, Piece>> = {
  January: ({ date }) => months[date.getUTCMonth()]!,
  Jan: ({ date }) => months[date.getUTCMonth()]!.slice(0, 3),
  Monday: ({ date }) => days[date.getUTCDay()]!,
  Mon: ({ date }) => days[date.getUTCDay()]!.slice(0, 3),
  MST: ({ abbreviation }) => abbreviation(),
  '2006': ({ date }) => pad(date.getUTCFullYear(), 4),
  '06': ({ date }) => pad(date.getUTCFullYear() % 100, 2),
  '01': ({ date }) => pad(date.getUTCMonth() + 1, 2),
  '1': ({ date }) => String(date.getUTCMonth() + 1),
  '02': ({ date }) => pad(date.getUTCDate(), 2),
  '2': ({ date }) => String(date.getUTCDate()),
  _2: ({ date }) => pad(date.getUTCDate(), 2, ' '),
  _2006: ({ date }) => `_${pad(date.getUTCFullYear(), 4)}`,
  '002': ({ date }) => pad(dayOfYear(date), 3),
  __2: ({ date }) => pad(dayOfYear(date), 3, ' '),
  '15': ({ date }) => pad(date.getUTCHours(), 2),
  '03': ({ date }) => pad(halfDay(date), 2),
  '3': ({ date }) => String(halfDay(date)),
  '04': ({ date }) => pad(date.getUTCMinutes(), 2),
  '4': ({ date }) => String(date.getUTCMinutes()),
  '05': ({ date }) => pad(date.getUTCSeconds(), 2),
  '5': ({ date }) => String(date.getUTCSeconds()),
  PM: ({ date }) => (date.getUTCHours() < 12 ? 'AM' : 'PM'),
  pm: ({ date }) => (date.getUTCHours() < 12 ? 'am' : 'pm'),
}

const dayOfYear = (date: Date): number =>
  Math.floor(
    (Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()) - Date.UTC(date.getUTCFullYear(), 0, 1)) / 86_400_000,
  ) + 1

function toPiece(element: string): Piece {
  if (element.startsWith('.') || element.startsWith(',')) return fractionPiece(element)
  if (element.startsWith('Z') || element.startsWith('-')) return offsetPiece(element)
  return piecesByElement[element]!
}

/** Zeros keep their width; nines drop trailing zeros and the point. */
function fractionPiece(element: string): Piece {
  const width = element.length - 1
  return ({ nanos }) => {
    const digits = pad(nanos, 9).slice(0, width)
    const shortened = element.endsWith('9') ? digits.replace(/0+$/, '') : digits
    return shortened === '' ? '' : element[0]! + shortened
  }
}

function offsetPiece(element: string): Piece {
  const colon = element.includes(':') ? ':' : ''
  const parts = element.slice(1).replaceAll(':', '').length / 2
  return ({ offset }) => {
    if (offset === 0 && element.startsWith('Z')) return 'Z'
    const seconds = Math.abs(offset)
    const fields = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60].slice(0, parts)
    return (offset < 0 ? '-' : '+') + fields.map((field) => pad(field, 2)).join(colon)
  }
}
