// Builds paths and query strings from a discovered resource. Pure.
import { KubeError } from './kube-error.ts'
import { apiVersionOf, describeRef } from './object.ts'

export interface Resource {
  group: string
  version: string
  kind: string
  plural: string
  namespaced: boolean
  verbs: readonly string[]
  subresources: readonly string[]
}

export type Query = Readonly<Record<string, string | number | boolean | undefined>>

/** Path of all objects of a kind in one namespace, or in the whole cluster without a namespace. */
export function collectionPath(
  resource: Pick<Resource, 'group' | 'version' | 'plural' | 'namespaced'>,
  namespace: string | undefined,
): string {
  const root = `${resource.group === '' ? '/api' : '/apis'}/${apiVersionOf(resource.group, resource.version)}`
  if (!resource.namespaced || !namespace) return `${root}/${resource.plural}`
  return `${root}/namespaces/${segment(namespace)}/${resource.plural}`
}

export function objectPath(resource: Resource, at: { namespace?: string | undefined; name: string }, subresource?: string): string {
  if (at.name === '') throw new KubeError(`${resource.kind}: a name is needed`, { reason: 'BadRequest' })
  if (resource.namespaced && !at.namespace)
    throw new KubeError(`${describeRef({ kind: resource.kind, name: at.name })}: a namespace is needed`, { reason: 'BadRequest' })
  const path = `${collectionPath(resource, at.namespace)}/${segment(at.name)}`
  return subresource ? `${path}/${segment(subresource)}` : path
}

/** A URL parser would resolve `.` and `..` to the path of another object. */
const segment = (text: string): string => {
  if (text === '.' || text === '..') throw new KubeError(`${JSON.stringify(text)} is not a name`, { reason: 'BadRequest' })
  return encodeURIComponent(text)
}

/** Built without URLSearchParams, because every call has a query. */
export function withQuery(path: string, query: Query): string {
  let text = path
  let sign = '?'
  for (const [key, value] of Object.entries(query)) {
    if (value === undefined || value === '') continue
    text += `${sign}${key}=${encodeURIComponent(value)}`
    sign = '&'
  }
  return text
}
