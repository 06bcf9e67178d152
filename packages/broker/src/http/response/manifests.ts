// Manifests in responses: masking of Secrets, and writing of long ones as bytes.
import type { ResponseOverrides } from '../request/exchange.ts'
import type { Principal } from '../server/handler.ts'

/** Removes the values of Secrets from all manifests in responses to read-only PAKs and console sessions. Applied to all operations here,
 * so that no handler can forget it. */
export const readsMasked = (principal: Principal): boolean => principal.readonly || principal.session !== null

export type MaskManifest = (text: string) => Promise<string>

/** Returns a copy of the handler's value; response overrides are changed in place. */
export async function maskManifests(mask: MaskManifest, overrides: ResponseOverrides, value: unknown): Promise<unknown> {
  if (overrides.headers['etag']?.startsWith('"') === true) overrides.headers['etag'] = overrides.headers['etag'].replace(/"$/, '-masked"')
  if (overrides.answer?.is === 'text' && /yaml/.test(overrides.answer.contentType))
    overrides.answer = { ...overrides.answer, text: await mask(overrides.answer.text) }
  if (overrides.answer?.is === 'pages') overrides.answer = { is: 'pages', pages: maskPages(mask, overrides.answer.pages) }
  return maskFields(mask, value)
}

async function* maskPages(mask: MaskManifest, pages: AsyncIterable<readonly object[]>): AsyncGenerator<readonly object[]> {
  for await (const page of pages) yield (await maskFields(mask, page)) as object[]
}

/** In sequence: a list of large manifests must not use all workers. */
async function maskFields(mask: MaskManifest, value: unknown): Promise<unknown> {
  if (Array.isArray(value)) {
    const items: unknown[] = []
    for (const item of value) items.push(await maskFields(mask, item))
    return items
  }
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value
  const copy: Record<string, unknown> = {}
  for (const [key, item] of Object.entries(value)) copy[key] = isMasked(key, item) ? await mask(item) : await maskFields(mask, item)
  return copy
}

/** A manifest, or a template that mentions a Secret; one that cannot be read as a manifest is masked completely. */
const isMasked = (key: string, item: unknown): item is string =>
  typeof item === 'string' && (key === 'yaml_content' || (key === 'template_content' && /secret/i.test(item)))

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
