// A list that is taken while it comes: objects are handed over as soon as a portion of them is decoded, so that the server writes the rest
// meanwhile. Whoever takes them does so at once; for work between objects there are pages (list.ts).
import { notTheApiServer } from './answer-error.ts'
import { hasReason, KubeError } from './api-error.ts'
import type { CollectionResource } from './built-in-kinds.ts'
import type { ListOptions, ListTaker } from './kube.ts'
import { asKind, METADATA_ONLY, PACKED } from './list.ts'
import { ListDecoder, ListTooLarge } from './list-decoder.ts'
import { nextLimit, PAGE_SIZE, STREAM_PAGE, smallerLimit } from './list-page.ts'
import type { Kind, KubeObject } from './object.ts'
import { collectionPath, withQuery } from './paths.ts'
import type { OpenAnswer } from './transport.ts'
import { BadPacking, isPacked, unpackBody } from './unpack.ts'

export interface ListStreamDeps {
  open(request: { method: 'GET'; path: string; accept?: string; headers: Record<string, string> }): Promise<OpenAnswer>
  resource: CollectionResource
  /** Bounds the text that waits to be decoded. */
  bytesMax: number
}

/** Gives the version of the list. Objects of a page that is asked for again are handed over again. */
export async function streamList(deps: ListStreamDeps, kind: Kind, options: ListOptions, taker: ListTaker): Promise<string> {
  // One question for all, as long as nothing speaks against it: the second would begin when the first is decoded.
  let limit = options.pageSize ?? STREAM_PAGE.objects
  let max = STREAM_PAGE
  let next: string | undefined
  for (;;) {
    const page = await readPage(deps, { kind, options, limit, next }, (items) => taker.take(items))
    if (page === 'too large') {
      limit = smallerLimit(limit)
      max = { ...max, objects: PAGE_SIZE }
      // Later pages are of the version of the first.
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
    if (isPacked(answer.headers)) await unpackBody(answer.body, push)
    else for await (const chunk of answer.body) push(chunk)
    const { items, ...rest } = decoder.end()
    take(asKind(items, kind))
    return { ...rest, bytes: decoder.bytes }
  } catch (error) {
    const isTooLarge = error instanceof ListTooLarge || hasReason(error, 'AnswerTooLarge')
    // A few of them may come in time where thousands do not.
    const isTooSlow = limit > PAGE_SIZE && hasReason(error, 'TimedOut')
    if ((limit > 1 && isTooLarge) || isTooSlow) return 'too large'
    throw errorOfPage(error, answer)
  } finally {
    answer.close()
  }
}

function errorOfPage(cause: unknown, answer: OpenAnswer): unknown {
  if (cause instanceof ListTooLarge) return new KubeError(`list: ${cause.message}`, { reason: 'AnswerTooLarge', cause })
  if (cause instanceof BadPacking) return new KubeError(`list: ${cause.message}`, { reason: 'BadAnswer', status: answer.status, cause })
  if (cause instanceof SyntaxError)
    return new KubeError(`list: ${notTheApiServer('answer', { ...answer, text: '' }).message}`, {
      reason: 'BadAnswer',
      status: answer.status,
      cause,
    })
  return cause
}
