// A list of items with long texts, as bytes. Escaping the texts and joining everything to one string is most of what such an answer costs;
// where each text is at hand as it is written, the compiled writer writes the rest and the texts are put into their places.

/** The item's `yaml_content` as JSON. Whoever changes that field makes a copy of the item, which does not have this: symbols are not copied
 *  with the fields of an answer that is masked. */
export const textAsJson: unique symbol = Symbol('yaml_content as JSON')

interface Item {
  readonly [textAsJson]?: Buffer | null
}
/** How the compiled writer writes an item whose text is empty. No value can hold this: its quotes would be escaped. */
const hole = '"yaml_content":""'
const key = Buffer.from('"yaml_content":')

export function writeWithTexts(write: (value: Record<string, unknown>) => string, value: unknown): string | Buffer {
  const written = (list: unknown): string => write(list as Record<string, unknown>)
  if (!isList(value)) return written(value)
  const pieces = written(value.map((item) => ({ ...item, yaml_content: '' }))).split(hole)
  // The schema of this answer has no such field, or more of them.
  if (pieces.length !== value.length + 1) return written(value)
  return Buffer.concat([...value.flatMap((item, at) => [Buffer.from(pieces[at]!), key, item[textAsJson]]), Buffer.from(pieces.at(-1)!)])
}

const isList = (value: unknown): value is { readonly [textAsJson]: Buffer }[] =>
  Array.isArray(value) && value.length > 0 && value.every((item: Item | null) => item?.[textAsJson] instanceof Buffer)
