// A list that is processed while it arrives: batches of objects are passed on as soon as they are decoded, while the server sends the rest.
// The receiver must not block; for slow work between objects there are pages (list.ts).

import type { CollectionResource } from '../client/built-in-kinds.ts'
import type { ListOptions, ListTaker } from '../client/kube.ts'
import { hasReason, KubeError } from '../client/kube-error.ts'
import type { Kind, KubeObject } from '../client/object.ts'
import { collectionPath, withQuery } from '../client/paths.ts'
import { notAnApiServer } from '../client/response-error.ts'
import { BadCompression, decompressBody, isGzipped } from '../http/decompress.ts'
import type { StreamedResponse } from '../http/transport.ts'
import { asKind, METADATA_ONLY, PACKED } from './list.ts'
import { ListDecoder, ListTooLarge } from './list-decoder.ts'
import { nextLimit, PAGE_SIZE, STREAM_PAGE, smallerLimit } from './list-page.ts'

export interface ListStreamDeps {
  open(request: { method: 'GET'; path: string; accept?: string; headers: Record<string, string> }): Promise<StreamedResponse>
  resource: CollectionResource
  /** Limits the text that waits to be decoded. */
  bytesMax: number
}

/** Returns the version of the list. Objects of a repeated page are passed on again. */
export async function streamList(deps: ListStreamDeps, kind: Kind, options: ListOptions, taker: ListTaker): Promise<string> {
  // One request for the whole list while nothing fails: a second page would start only after the first is decoded.
  let limit = options.pageSize ?? STREAM_PAGE.objects
  let max = STREAM_PAGE
  let next: string | undefined
  for (;;) {
    const page = await readPage(deps, { kind, options, limit, next }, (items) => taker.take(items))
    if (page === 'too large') {
      limit = smallerLimit(limit)
      max = { ...max, objects: PAGE_SIZE }
      // Later pages have the version of the first.
      if (next === undefined) taker.anew()
    } else if (!page.next) return page.resourceVersion
    else {
      next = page.next
      if (options.pageSize === undefined) limit = nextLimit(limit, page.bytes, max)
    }
  }
}

interface PageRequest {
  readonly kind: Kind
  readonly options: ListOptions
  readonly limit: number
  readonly next: string | undefined
}

async function readPage(
  deps: ListStreamDeps,
  { kind, options, limit, next }: PageRequest,
  take: (items: KubeObject[]) => void,
): Promise<{ resourceVersion: string; next: string | undefined; bytes: number } | 'too large'> {
  const { labelSelector, fieldSelector } = options
  const resourceVersion = next ? undefined : options.resourceVersion
  const path = withQuery(collectionPath(deps.resource, options.namespace), {
    limit,
    continue: next,
    labelSelector,
    fieldSelector,
    resourceVersion,
  })
  const answer = await deps.open({ method: 'GET', path, headers: PACKED, ...(options.metadataOnly ? { accept: METADATA_ONLY } : {}) })
  const decoder = new ListDecoder(deps.bytesMax)
  const push = (bytes: Buffer): void => {
    const items = decoder.push(bytes)
    if (items.length > 0) take(asKind(items, kind))
  }
  try {
    if (isGzipped(answer.headers)) await decompressBody(answer.body, push)
    else for await (const chunk of answer.body) push(chunk)
    const { items, ...rest } = decoder.end()
    take(asKind(items, kind))
    return { ...rest, bytes: decoder.bytes }
  } catch (error) {
    const isTooLarge = error instanceof ListTooLarge || hasReason(error, 'AnswerTooLarge')
    // A small page may arrive in time where a large one does not.
    const isTooSlow = limit > PAGE_SIZE && hasReason(error, 'TimedOut')
    if ((limit > 1 && isTooLarge) || isTooSlow) return 'too large'
    throw toPageError(error, answer)
  } finally {
    answer.close()
  }
}

function toPageError(cause: unknown, answer: StreamedResponse): unknown {
  if (cause instanceof ListTooLarge) return new KubeError(`list: ${cause.message}`, { reason: 'AnswerTooLarge', cause })
  if (cause instanceof BadCompression) return new KubeError(`list: ${cause.message}`, { reason: 'BadAnswer', status: answer.status, cause })
  if (cause instanceof SyntaxError)
    return new KubeError(`list: ${notAnApiServer('answer', { ...answer, text: '' }).message}`, {
      reason: 'BadAnswer',
      status: answer.status,
      cause,
    })
  return cause
}
