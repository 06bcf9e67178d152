// Prints a value as a YAML document that the reader of manifests reads back as the same value: block style, texts quoted
// wherever a plain one could be taken for something else.
import { isJsonObject, type JsonObject, type JsonValue } from './json-text.ts'

export function yamlText(value: JsonValue): string {
  return `${lines(value).join('\n')}\n`
}

function lines(value: JsonValue): string[] {
  if (Array.isArray(value) && value.length > 0) return value.flatMap((item) => prefixed('- ', lines(item)))
  if (isJsonObject(value) && Object.keys(value).length > 0) return objectLines(value)
  return [scalar(value)]
}

function objectLines(object: JsonObject): string[] {
  return Object.entries(object).flatMap(([key, item]) => {
    const nested = isNested(item)
    return nested ? [`${text(key)}:`, ...lines(item).map((line) => `  ${line}`)] : [`${text(key)}: ${scalar(item)}`]
  })
}

const isNested = (value: JsonValue): boolean =>
  Array.isArray(value) ? value.length > 0 : isJsonObject(value) && Object.keys(value).length > 0

/** The first line carries the mark, the others stand below it. */
function prefixed(mark: string, [first = '', ...rest]: string[]): string[] {
  return [`${mark}${first}`, ...rest.map((line) => `${' '.repeat(mark.length)}${line}`)]
}

function scalar(value: JsonValue): string {
  if (Array.isArray(value)) return '[]'
  if (isJsonObject(value)) return '{}'
  return typeof value === 'string' ? text(value) : String(value)
}

const plain = /^[A-Za-z][A-Za-z0-9_./-]*$/
/** What YAML 1.1 reads as a truth value or as nothing. */
const words = /^(y|yes|n|no|true|false|on|off|null)$/i

const text = (value: string): string => (plain.test(value) && !words.test(value) ? value : quoted(value))

/** JSON's own quoting, but for characters that a reader may take for the end of a line or refuse. */
const quoted = (value: string): string =>
  JSON.stringify(value).replace(
    /[\u007F-\u009F\u2028\u2029\uFEFF\uFFFE\uFFFF]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
