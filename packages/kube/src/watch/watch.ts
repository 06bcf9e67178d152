// A watch as an async iterator: one endless HTTP response, one event per line. It uses one connection; the informer recovers from failures.

import type { CollectionResource } from '../client/built-in-kinds.ts'
import type { WatchEvent, WatchOptions } from '../client/kube.ts'
import { KubeError } from '../client/kube-error.ts'
import type { Kind } from '../client/object.ts'
import { collectionPath, withQuery } from '../client/paths.ts'
import { notAnApiServer } from '../client/response-error.ts'
import type { StreamedResponse } from '../http/transport.ts'
import { LineSplitter, LineTooLong } from './line-splitter.ts'
import { takeEvents } from './watch-events.ts'

export interface WatchDeps {
  open(request: { method: 'GET'; path: string; accept?: string }): Promise<StreamedResponse>
  resolve(): Promise<CollectionResource>
  lineBytesMax: number
}

const METADATA_ONLY = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json'

/** Events that arrived together are delivered together to `onEvents`, or else one by one. */
export async function* watchEvents(deps: WatchDeps, kind: Kind, options: WatchOptions): AsyncGenerator<WatchEvent> {
  const what = `watch ${kind.kind}`
  const { onEvents } = options
  const path = withQuery(collectionPath(await deps.resolve(), options.namespace), toQuery(options))
  const answer = await deps.open({ method: 'GET', path, ...(options.metadataOnly ? { accept: METADATA_ONLY } : {}) })
  const idle = startIdleTimer(options.idleMs, answer)
  const lines = new LineSplitter(deps.lineBytesMax)
  try {
    if (!/json/.test(String(answer.headers['content-type'] ?? ''))) throw notAnApiServer(what, { ...answer, text: '' })
    options.onOpen?.()
    for (let chunks = await answer.body.take(); chunks; chunks = await answer.body.take()) {
      idle.touch()
      let batch: WatchEvent[] = []
      const complete = chunks.length === 1 && chunks[0] ? lines.push(chunks[0]) : chunks.flatMap((chunk) => lines.push(chunk))
      try {
        takeEvents(what, complete, kind, onEvents ?? ((events) => void (batch = events)))
      } finally {
        yield* batch
      }
    }
    if (lines.pendingBytes > 0) throw new KubeError(`${what}: the stream ended within an event`, { reason: 'Unreachable' })
  } catch (error) {
    throw idle.expired
      ? new KubeError(`${what}: no event for ${options.idleMs} ms`, { reason: 'TimedOut' })
      : errorOfStream(what, error, options.signal)
  } finally {
    idle.stop()
    answer.close()
  }
}

const toQuery = (options: WatchOptions) => ({
  watch: 1,
  allowWatchBookmarks: true,
  resourceVersion: options.resourceVersion,
  labelSelector: options.labelSelector,
  fieldSelector: options.fieldSelector,
  timeoutSeconds: options.serverTimeoutMs === undefined ? undefined : Math.ceil(options.serverTimeoutMs / 1000),
  sendInitialEvents: options.sendInitialEvents,
  resourceVersionMatch: options.sendInitialEvents ? 'NotOlderThan' : undefined,
})

function startIdleTimer(idleMs: number | undefined, answer: StreamedResponse): { touch(): void; stop(): void; readonly expired: boolean } {
  let expired = false
  const timer = setTimeout(() => {
    expired = true
    answer.body.close(new Error('idle'))
  }, idleMs ?? 0)
  if (idleMs === undefined) clearTimeout(timer)
  return {
    touch: () => void (idleMs === undefined ? 0 : timer.refresh()),
    stop: () => clearTimeout(timer),
    get expired() {
      return expired
    },
  }
}

function errorOfStream(what: string, error: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted) return signal.reason
  if (error instanceof KubeError) return error
  if (error instanceof LineTooLong) return new KubeError(`${what}: ${error.message}`, { reason: 'BadAnswer', cause: error })
  if (error instanceof Error && 'code' in error)
    return new KubeError(`${what}: ${String(error.code)}: ${error.message}`, { reason: 'Unreachable', cause: error })
  return error
}
