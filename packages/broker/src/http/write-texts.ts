// A list of items with long texts, as bytes. Escaping the texts and joining everything to one string is most of what such an answer costs;
// where each text is at hand as it is written, the compiled writer writes the rest and the texts are put into their places.

/** The item's `yaml_content` as JSON, with the text it is of: whoever changes the text, as masking does, is not undone by it. */
export const textAsJson: unique symbol = Symbol('yaml_content as JSON')

export interface TextAsJson {
  readonly text: string
  readonly json: Buffer
}
interface Item {
  readonly yaml_content?: unknown
  readonly [textAsJson]?: TextAsJson | null
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
  return Buffer.concat([
    ...value.flatMap((item, at) => [Buffer.from(pieces[at]!), key, item[textAsJson].json]),
    Buffer.from(pieces.at(-1)!),
  ])
}

const isList = (value: unknown): value is { readonly [textAsJson]: TextAsJson }[] =>
  Array.isArray(value) && value.length > 0 && value.every(hasOwnText)

const hasOwnText = (item: Item | null): boolean => typeof item?.yaml_content === 'string' && item[textAsJson]?.text === item.yaml_content
