// Writes items with long manifests as bytes. Escaping the manifests and joining everything into one string is most of the cost of such a
// response. If a manifest is available as JSON, the compiled writer writes the other fields and the manifest is inserted.

/** An item's `yaml_content` as JSON, with its source text: if the text is changed later, as masking does, the JSON is not used. */
export const textAsJson: unique symbol = Symbol('yaml_content as JSON')

export interface TextAsJson {
  readonly text: string
  readonly json: Uint8Array
}
interface Item {
  readonly yaml_content?: unknown
  readonly [textAsJson]?: TextAsJson | null
}
/** Output of the compiled writer for an empty text. No value can contain this: its quotes would be escaped. */
const hole = '"yaml_content":""'
const key = Buffer.from('"yaml_content":')

export function writeWithManifests(write: (value: Record<string, unknown>) => string, value: unknown): string | Buffer {
  const written = (list: unknown): string => write(list as Record<string, unknown>)
  const items = Array.isArray(value) ? value : [value]
  if (!haveTexts(items)) return written(value)
  const emptied = items.map((item) => ({ ...item, yaml_content: '' }))
  const pieces = written(Array.isArray(value) ? emptied : emptied[0]).split(hole)
  // The schema of this response has no such field, or several.
  if (pieces.length !== items.length + 1) return written(value)
  return Buffer.concat([
    ...items.flatMap((item, at) => [Buffer.from(pieces[at]!), key, item[textAsJson].json]),
    Buffer.from(pieces.at(-1)!),
  ])
}

const haveTexts = (items: readonly unknown[]): items is { readonly [textAsJson]: TextAsJson }[] =>
  items.length > 0 && (items as (Item | null | undefined)[]).every(hasOwnText)

const hasOwnText = (item: Item | null | undefined): boolean =>
  typeof item?.yaml_content === 'string' && item[textAsJson]?.text === item.yaml_content
