// A watch as an async iterator: one HTTP answer without an end, one event per line. It follows one connection; healing is the informer's.
import { notTheApiServer } from './answer-error.ts'
import { KubeError } from './api-error.ts'
import type { CollectionResource } from './built-in-kinds.ts'
import type { WatchEvent, WatchOptions } from './kube.ts'
import { LineSplitter, LineTooLong } from './lines.ts'
import type { Kind } from './object.ts'
import { collectionPath, withQuery } from './paths.ts'
import type { OpenAnswer } from './transport.ts'
import { takeEvents } from './watch-event.ts'

export interface WatchDeps {
  open(request: { method: 'GET'; path: string; accept?: string }): Promise<OpenAnswer>
  resolve(): Promise<CollectionResource>
  lineBytesMax: number
}

const METADATA_ONLY = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json'

/** Events that came together are taken together: by `onEvents` where the caller has it, else one after the other. */
export async function* watchEvents(deps: WatchDeps, kind: Kind, options: WatchOptions): AsyncGenerator<WatchEvent> {
  const what = `watch ${kind.kind}`
  const { onEvents } = options
  const path = withQuery(collectionPath(await deps.resolve(), options.namespace), queryOf(options))
  const answer = await deps.open({ method: 'GET', path, ...(options.metadataOnly ? { accept: METADATA_ONLY } : {}) })
  const idle = startIdleTimer(options.idleMs, answer)
  const lines = new LineSplitter(deps.lineBytesMax)
  try {
    if (!/json/.test(String(answer.headers['content-type'] ?? ''))) throw notTheApiServer(what, { ...answer, text: '' })
    options.onOpen?.()
    for (let chunks = await answer.body.take(); chunks; chunks = await answer.body.take()) {
      idle.touch()
      let taken: WatchEvent[] = []
      const complete = chunks.length === 1 && chunks[0] ? lines.push(chunks[0]) : chunks.flatMap((chunk) => lines.push(chunk))
      try {
        takeEvents(what, complete, kind, onEvents ?? ((events) => void (taken = events)))
      } finally {
        yield* taken
      }
    }
    if (lines.pendingBytes > 0) throw new KubeError(`${what}: the stream ended within an event`, { reason: 'Unreachable' })
  } catch (error) {
    throw idle.expired
      ? new KubeError(`${what}: nothing came for ${options.idleMs} ms`, { reason: 'TimedOut' })
      : errorOfStream(what, error, options.signal)
  } finally {
    idle.stop()
    answer.close()
  }
}

const queryOf = (options: WatchOptions) => ({
  watch: 1,
  allowWatchBookmarks: true,
  resourceVersion: options.resourceVersion,
  labelSelector: options.labelSelector,
  fieldSelector: options.fieldSelector,
  timeoutSeconds: options.serverTimeoutMs === undefined ? undefined : Math.ceil(options.serverTimeoutMs / 1000),
  sendInitialEvents: options.sendInitialEvents,
  resourceVersionMatch: options.sendInitialEvents ? 'NotOlderThan' : undefined,
})

function startIdleTimer(idleMs: number | undefined, answer: OpenAnswer): { touch(): void; stop(): void; readonly expired: boolean } {
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
