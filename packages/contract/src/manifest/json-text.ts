// JSON values as manifests hold them. Integers that a double cannot hold are bigint, and free maps have no prototype, so that a key
// such as __proto__ is a key like any other.

export type JsonValue = null | boolean | number | bigint | string | JsonValue[] | JsonObject
export type JsonObject = { [key: string]: JsonValue }

/** Like JSON.stringify without spaces, but a bigint is printed as the integer it is. */
export function jsonText(value: JsonValue): string {
  if (typeof value === 'bigint') return value.toString()
  if (Array.isArray(value)) return `[${value.map(jsonText).join(',')}]`
  if (typeof value === 'object' && value !== null) return objectText(value)
  return JSON.stringify(value)
}

const objectText = (object: JsonObject): string =>
  `{${Object.entries(object)
    .map(([key, item]) => `${JSON.stringify(key)}:${jsonText(item)}`)
    .join(',')}}`

export const emptyObject = (): JsonObject => Object.create(null) as JsonObject

export const isJsonObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
