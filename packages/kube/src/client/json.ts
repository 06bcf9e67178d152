// JSON of Kubernetes. Integers beyond 2^53 are bigint, so that 64-bit values keep every digit.

interface RawJson {
  rawJSON(text: string): unknown
}

/** Matches the character before the digits too: searching for digits alone takes three times as long, because names, times and ids contain many. */
const LONG_INSIDE = /[:,[\s]-?\d{16}/
const LONG_ALONE = /^-?\d{16}/

type Reviver = (key: string, value: unknown, context: { source?: string }) => unknown

/** Like JSON.stringify, but a bigint becomes a plain JSON number. */
export function encodeJson(value: unknown): string {
  try {
    return JSON.stringify(value)
  } catch (error) {
    // A replacer costs several times as much as plain stringify, so it runs only after that met a bigint; a cycle throws here again.
    if (!(error instanceof TypeError)) throw error
    return JSON.stringify(value, exactNumber)
  }
}

const exactNumber = (_key: string, item: unknown): unknown =>
  typeof item === 'bigint' ? (JSON as unknown as RawJson).rawJSON(item.toString()) : item

/** Like JSON.parse, but integers that a double cannot represent become bigint. */
export function decodeJson(text: string): unknown {
  // A reviver costs three times the parse, so it runs only if the text contains a number with 16 digits or more.
  if (!LONG_INSIDE.test(text) && !LONG_ALONE.test(text)) return JSON.parse(text)
  return (JSON.parse as (text: string, reviver: Reviver) => unknown)(text, exactInteger)
}

const exactInteger: Reviver = (_key, value, context) =>
  typeof value === 'number' && !Number.isSafeInteger(value) && context.source !== undefined && /^-?\d+$/.test(context.source)
    ? BigInt(context.source)
    : value
