// What read-only keys and console sessions read: the same answers, with the values of Secrets taken out of every manifest.
// Done here for all operations at once, so that no handler can forget it.
import type { Said } from './exchange.ts'
import type { Principal } from './handler.ts'

export const readsMasked = (principal: Principal): boolean => principal.readonly || principal.session !== null

export type MaskManifest = (text: string) => Promise<string>

/** A copy of the handler's value; what it said beside it is changed in place. */
export async function maskAnswer(mask: MaskManifest, said: Said, value: unknown): Promise<unknown> {
  if (said.headers['etag']?.startsWith('"') === true) said.headers['etag'] = said.headers['etag'].replace(/"$/, '-masked"')
  if (said.answer?.is === 'text' && /yaml/.test(said.answer.contentType))
    said.answer = { ...said.answer, text: await mask(said.answer.text) }
  return maskFields(mask, value)
}

/** One after the other: a list of large manifests must not take every worker. */
async function maskFields(mask: MaskManifest, value: unknown): Promise<unknown> {
  if (Array.isArray(value)) {
    const items: unknown[] = []
    for (const item of value) items.push(await maskFields(mask, item))
    return items
  }
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value
  const copy: Record<string, unknown> = {}
  for (const [key, item] of Object.entries(value))
    copy[key] = key === 'yaml_content' && typeof item === 'string' ? await mask(item) : await maskFields(mask, item)
  return copy
}
