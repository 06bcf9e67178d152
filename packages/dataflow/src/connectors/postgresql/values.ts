// Converts rows of text to JSON text by type: numbers keep all digits, times are RFC3339 with microseconds, JSON stays JSON. Pure. The
// result is text, because most flows do not read every row.

/** How a column is printed, and the index of its value. */
export interface JsonColumn {
  readonly label: string
  readonly type: number
  readonly at: number
}
export const jsonColumn = (name: string, type: number, at: number): JsonColumn => ({ label: `${JSON.stringify(name)}:`, type, at })

/** Undefined: unknown, so the key is left out. */
export function rowJson(columns: readonly JsonColumn[], values: readonly (string | null | undefined)[]): string {
  let text = ''
  for (const { label, type, at } of columns) {
    const value = values[at]
    if (value === undefined) continue
    text += text === '' ? label : `,${label}`
    text += valueJson(type, value)
  }
  return `{${text}}`
}

export function valueJson(type: number, value: string | null): string {
  if (value === null) return 'null'
  const element = arrays[type]
  if (element !== undefined) return arrayJson(value, element) ?? JSON.stringify(value)
  const kind = kinds[type]
  return kind === undefined ? JSON.stringify(value) : kind(value)
}

const number = (value: string): string => (/^-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?$/i.test(value) ? value : JSON.stringify(value))
const json = (value: string): string => value
const boolean = (value: string): string => (value === 't' ? 'true' : 'false')
/** infinity and years BC stay unchanged. */
const time = (value: string): string =>
  JSON.stringify(
    value.replace(
      /^(\d{4,}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d+)?)(\+00)?$/,
      (_all, day, clock, zone) => `${day}T${clock}${zone === undefined ? '' : 'Z'}`,
    ),
  )

const kinds: Readonly<Record<number, (value: string) => string>> = {
  16: boolean,
  20: number,
  21: number,
  23: number,
  26: number,
  700: number,
  701: number,
  1700: number,
  114: json,
  3802: json,
  1114: time,
  1184: time,
}

/** Array type → element type. */
const arrays: Readonly<Record<number, number>> = {
  1000: 16,
  1005: 21,
  1007: 23,
  1016: 20,
  1021: 700,
  1022: 701,
  1231: 1700,
  199: 114,
  3807: 3802,
  1115: 1114,
  1185: 1184,
  1009: 25,
  1015: 1043,
  1014: 1042,
  1182: 1082,
  2951: 2950,
}

/** PostgreSQL's {1,NULL,"a \"b\""} to JSON; undefined for other forms (such as bounds). */
function arrayJson(text: string, element: number): string | undefined {
  const cursor = { at: 0 }
  const result = readArray(text, cursor, element)
  return cursor.at === text.length ? result : undefined
}

function readArray(text: string, cursor: { at: number }, element: number): string | undefined {
  if (text[cursor.at] !== '{') return undefined
  cursor.at += 1
  if (text[cursor.at] === '}') {
    cursor.at += 1
    return '[]'
  }
  const items: string[] = []
  for (;;) {
    const item = text[cursor.at] === '{' ? readArray(text, cursor, element) : readItem(text, cursor, element)
    if (item === undefined) return undefined
    items.push(item)
    const next = text[cursor.at]
    cursor.at += 1
    if (next === '}') return `[${items.join(',')}]`
    if (next !== ',') return undefined
  }
}

function readItem(text: string, cursor: { at: number }, element: number): string | undefined {
  const pattern = /"((?:[^"\\]|\\.)*)"|([^",{}\s\\][^",{}\\]*)/sy
  pattern.lastIndex = cursor.at
  const match = pattern.exec(text)
  if (match === null) return undefined
  cursor.at = pattern.lastIndex
  if (match[2] !== undefined) return valueJson(element, match[2].toUpperCase() === 'NULL' ? null : match[2])
  return valueJson(element, match[1]!.replace(/\\(.)/gs, '$1'))
}

/** A line of COPY's text format. */
export function copyValues(line: string): (string | null)[] {
  return line.split('\t').map((field) => (field === '\\N' ? null : field.includes('\\') ? field.replace(/\\(.)/gs, unescaped) : field))
}

const escapes: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' }
const unescaped = (_all: string, character: string): string => escapes[character] ?? character
