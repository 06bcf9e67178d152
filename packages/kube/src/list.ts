// A list in pages. A page that is too large for us is asked for again in halves, so that one fat namespace does not end everything. While
// a page is decoded the next one is under way already: the server works on it as we do on ours.
import { type Answer, notTheApiServer } from './answer-error.ts'
import { hasReason, KubeError } from './api-error.ts'
import { fieldsAt, textAt, valueAt } from './fields.ts'
import { decodeJson } from './json.ts'
import type { KubeList, ListOptions } from './kube.ts'
import { continueOf, nextLimit, PAGE_SIZE } from './list-page.ts'
import type { Kind, KubeObject } from './object.ts'
import { collectionPath, type Resource, withQuery } from './paths.ts'

export interface ListDeps {
  send(request: { method: 'GET'; path: string; accept?: string; headers: Record<string, string>; signal: AbortSignal }): Promise<Answer>
  resolve(): Promise<Resource>
}

export async function* listPages(deps: ListDeps, kind: Kind, options: ListOptions): AsyncGenerator<KubeList> {
  // Whoever leaves early takes along the page that is under way.
  const leaving = new AbortController()
  const { signal } = options
  const follow = (): void => leaving.abort(signal?.reason)
  if (signal?.aborted) follow()
  signal?.addEventListener('abort', follow, { once: true })
  try {
    yield* pagesUntil(leaving.signal, deps, kind, options)
  } finally {
    signal?.removeEventListener('abort', follow)
    leaving.abort(new Error('the list was left'))
  }
}

async function* pagesUntil(signal: AbortSignal, deps: ListDeps, kind: Kind, options: ListOptions): AsyncGenerator<KubeList> {
  const collection = collectionPath(await deps.resolve(), options.namespace)
  let limit = options.pageSize ?? PAGE_SIZE
  let next: string | undefined
  const fetch = (): Promise<Answer | 'too large'> => fetchPage(deps, { collection, options, limit, next, signal })
  let coming = fetch()
  for (;;) {
    const answer = await coming
    if (answer === 'too large') {
      limit = Math.ceil(limit / 2)
      coming = fetch()
      continue
    }
    next = continueOf(answer.text)
    if (options.pageSize === undefined) limit = nextLimit(limit, answer.text.length)
    // At most one page ahead, and asked for before this one is decoded.
    if (next) coming = fetch()
    // Its failure is thrown when its turn comes, not as one that nobody handles.
    coming.catch(() => undefined)
    const page = decodeList(answer)
    yield { resourceVersion: textAt(page, 'metadata', 'resourceVersion') ?? '', items: itemsOf(page, kind) }
    if (!next) return
  }
}

export const METADATA_ONLY = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json'
/** Lists shrink to a tenth, and packing costs the server less than sending the rest in the small pieces it sends. */
export const PACKED = { 'accept-encoding': 'gzip' }

interface PageRequest {
  readonly collection: string
  readonly options: ListOptions
  readonly limit: number
  readonly next: string | undefined
  readonly signal: AbortSignal
}

async function fetchPage(deps: ListDeps, { collection, options, limit, next, signal }: PageRequest): Promise<Answer | 'too large'> {
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

function decodeList(answer: Answer): unknown {
  let value: unknown
  try {
    value = decodeJson(answer.text)
  } catch (cause) {
    throw new KubeError(`list: ${notTheApiServer('answer', answer).message}`, { reason: 'BadAnswer', status: answer.status, cause })
  }
  if (fieldsAt(value, 'metadata') === undefined || !Array.isArray(valueAt(value, 'items') ?? []))
    throw new KubeError('list: the answer is not a list', { reason: 'BadAnswer', status: answer.status })
  return value
}

function itemsOf(list: unknown, kind: Kind): KubeObject[] {
  return asKind((valueAt(list, 'items') ?? []) as KubeObject[], kind)
}

/** Items of a list carry no apiVersion and kind of their own. */
export function asKind(items: KubeObject[], kind: Kind): KubeObject[] {
  for (const item of items) {
    item.apiVersion = kind.apiVersion
    item.kind = kind.kind
  }
  return items
}
