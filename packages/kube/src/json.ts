// JSON as Kubernetes speaks it. Integers beyond 2^53 are bigint on our side, because a port of 64 bits must arrive exactly as written.

interface RawJson {
  rawJSON(text: string): unknown
}

/** Known by what stands before a number. Looking for the digits alone takes three times as long, for names, times and ids are full of them. */
const LONG_INSIDE = /[:,[\s]-?\d{16}/
const LONG_ALONE = /^-?\d{16}/

type Reviver = (key: string, value: unknown, context: { source?: string }) => unknown

/** Like JSON.stringify, but a bigint becomes a plain JSON number. */
export function encodeJson(value: unknown): string {
  try {
    return JSON.stringify(value)
  } catch (error) {
    // A replacer costs several times the plain form, so it runs only after that met a bigint; a cycle throws here again.
    if (!(error instanceof TypeError)) throw error
    return JSON.stringify(value, exactNumber)
  }
}

const exactNumber = (_key: string, item: unknown): unknown =>
  typeof item === 'bigint' ? (JSON as unknown as RawJson).rawJSON(item.toString()) : item

/** Like JSON.parse, but integers that a double cannot hold come back as bigint. */
export function decodeJson(text: string): unknown {
  // The reviver costs three times the parse, so it runs only where a number of 16 digits makes such an integer possible.
  if (!LONG_INSIDE.test(text) && !LONG_ALONE.test(text)) return JSON.parse(text)
  return (JSON.parse as (text: string, reviver: Reviver) => unknown)(text, exactInteger)
}

const exactInteger: Reviver = (_key, value, context) =>
  typeof value === 'number' && !Number.isSafeInteger(value) && context.source !== undefined && /^-?\d+$/.test(context.source)
    ? BigInt(context.source)
    : value
