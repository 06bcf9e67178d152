// Removes the values of Secrets from all manifests in responses to read-only PAKs and console sessions. Applied to all operations here, so
// that no handler can forget it.
import type { ResponseOverrides } from '../request/exchange.ts'
import type { Principal } from '../server/handler.ts'

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
