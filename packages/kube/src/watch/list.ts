// A list in pages. A page that is too large is requested again in halves, so that one large namespace does not fail the whole list. The next
// page is requested before the current one is decoded.

import { fieldsAt, textAt, valueAt } from '../client/fields.ts'
import { decodeJson } from '../client/json.ts'
import type { KubeList, ListOptions } from '../client/kube.ts'
import { hasReason, KubeError } from '../client/kube-error.ts'
import type { Kind, KubeObject } from '../client/object.ts'
import { collectionPath, type Resource, withQuery } from '../client/paths.ts'
import { type KubeResponse, notAnApiServer } from '../client/response-error.ts'
import { nextLimit, PAGE_SIZE, readContinueToken } from './list-page.ts'

export interface ListDeps {
  send(request: {
    method: 'GET'
    path: string
    accept?: string
    headers: Record<string, string>
    signal: AbortSignal
  }): Promise<KubeResponse>
  resolve(): Promise<Resource>
}

export async function* listPages(deps: ListDeps, kind: Kind, options: ListOptions): AsyncGenerator<KubeList> {
  // A caller that leaves early aborts the request in flight.
  const leaving = new AbortController()
  const { signal } = options
  const follow = (): void => leaving.abort(signal?.reason)
  if (signal?.aborted) follow()
  signal?.addEventListener('abort', follow, { once: true })
  try {
    yield* pagesUntil(leaving.signal, deps, kind, options)
  } finally {
    signal?.removeEventListener('abort', follow)
    leaving.abort(new Error('the caller left the list'))
  }
}

async function* pagesUntil(signal: AbortSignal, deps: ListDeps, kind: Kind, options: ListOptions): AsyncGenerator<KubeList> {
  const collection = collectionPath(await deps.resolve(), options.namespace)
  let limit = options.pageSize ?? PAGE_SIZE
  let next: string | undefined
  const fetch = (): Promise<KubeResponse | 'too large'> => fetchPage(deps, { collection, options, limit, next, signal })
  let coming = fetch()
  for (;;) {
    const answer = await coming
    if (answer === 'too large') {
      limit = Math.ceil(limit / 2)
      coming = fetch()
      continue
    }
    next = readContinueToken(answer.text)
    if (options.pageSize === undefined) limit = nextLimit(limit, answer.text.length)
    // At most one page ahead, requested before this one is decoded.
    if (next) coming = fetch()
    // Its failure is thrown when the page is read; this prevents an unhandled rejection.
    coming.catch(() => undefined)
    const page = decodeList(answer)
    yield { resourceVersion: textAt(page, 'metadata', 'resourceVersion') ?? '', items: toItems(page, kind) }
    if (!next) return
  }
}

export const METADATA_ONLY = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json'
/** gzip shrinks lists to a tenth, which costs the server less than sending the rest. */
export const PACKED = { 'accept-encoding': 'gzip' }

interface PageRequest {
  readonly collection: string
  readonly options: ListOptions
  readonly limit: number
  readonly next: string | undefined
  readonly signal: AbortSignal
}

async function fetchPage(deps: ListDeps, { collection, options, limit, next, signal }: PageRequest): Promise<KubeResponse | 'too large'> {
  const { labelSelector, fieldSelector } = options
  const resourceVersion = next ? undefined : options.resourceVersion
  const path = withQuery(collection, { limit, continue: next, labelSelector, fieldSelector, resourceVersion })
  try {
    return await deps.send({ method: 'GET', path, headers: PACKED, signal, ...(options.metadataOnly ? { accept: METADATA_ONLY } : {}) })
  } catch (error) {
    if (limit > 1 && hasReason(error, 'AnswerTooLarge')) return 'too large'
    throw error
  }
}

function decodeList(answer: KubeResponse): unknown {
  let value: unknown
  try {
    value = decodeJson(answer.text)
  } catch (cause) {
    throw new KubeError(`list: ${notAnApiServer('answer', answer).message}`, { reason: 'BadAnswer', status: answer.status, cause })
  }
  if (fieldsAt(value, 'metadata') === undefined || !Array.isArray(valueAt(value, 'items') ?? []))
    throw new KubeError('list: the response is not a list', { reason: 'BadAnswer', status: answer.status })
  return value
}

function toItems(list: unknown, kind: Kind): KubeObject[] {
  return asKind((valueAt(list, 'items') ?? []) as KubeObject[], kind)
}

/** Items of a list have no apiVersion and kind. */
export function asKind(items: KubeObject[], kind: Kind): KubeObject[] {
  for (const item of items) {
    item.apiVersion = kind.apiVersion
    item.kind = kind.kind
  }
  return items
}
