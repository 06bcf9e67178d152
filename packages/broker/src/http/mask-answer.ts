// What read-only keys and console sessions read: the same answers, with the values of Secrets taken out of every manifest.
// Done here for all operations at once, so that no handler can forget it.
import { maskManifest } from '../domain/mask-manifest.ts'
import type { Said } from './exchange.ts'
import type { Principal } from './handler.ts'

export const readsMasked = (principal: Principal): boolean => principal.readonly || principal.session !== null

/** A copy of the handler's value; what it said beside it is changed in place. */
export function maskAnswer(said: Said, value: unknown): unknown {
  if (said.headers['etag']?.startsWith('"') === true) said.headers['etag'] = said.headers['etag'].replace(/"$/, '-masked"')
  if (said.answer?.is === 'text' && /yaml/.test(said.answer.contentType))
    said.answer = { ...said.answer, text: maskManifest(said.answer.text) }
  return maskFields(value)
}

function maskFields(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(maskFields)
  if (typeof value !== 'object' || value === null || Object.getPrototypeOf(value) !== Object.prototype) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [
      key,
      key === 'yaml_content' && typeof item === 'string' ? maskManifest(item) : maskFields(item),
    ]),
  )
}
