// A watch as an async iterator: one HTTP answer without an end, one event per line. It follows one connection; healing is the informer's.
import { errorOfStatus, notTheApiServer } from './answer-error.ts'
import { KubeError } from './api-error.ts'
import { isFields, textAt } from './fields.ts'
import { decodeJson } from './json.ts'
import type { WatchEvent, WatchOptions } from './kube.ts'
import { LineSplitter, LineTooLong } from './lines.ts'
import type { Fields, Kind } from './object.ts'
import { collectionPath, type Resource, withQuery } from './paths.ts'
import type { OpenAnswer } from './transport.ts'

export interface WatchDeps {
  open(request: { method: 'GET'; path: string; accept?: string }): Promise<OpenAnswer>
  resolve(): Promise<Resource>
  lineBytesMax: number
}

const METADATA_ONLY = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json'

export async function* watchEvents(deps: WatchDeps, kind: Kind, options: WatchOptions): AsyncGenerator<WatchEvent> {
  const what = `watch ${kind.kind}`
  const path = withQuery(collectionPath(await deps.resolve(), options.namespace), queryOf(options))
  const answer = await deps.open({ method: 'GET', path, ...(options.metadataOnly ? { accept: METADATA_ONLY } : {}) })
  const idle = startIdleTimer(options.idleMs, answer)
  const lines = new LineSplitter(deps.lineBytesMax)
  try {
    if (!/json/.test(String(answer.headers['content-type'] ?? ''))) throw notTheApiServer(what, { ...answer, text: '' })
    options.onOpen?.()
    for (let chunks = await answer.body.take(); chunks; chunks = await answer.body.take()) {
      idle.touch()
      for (const chunk of chunks) for (const line of lines.push(chunk)) yield eventOf(what, line, kind)
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

const TYPES: ReadonlySet<unknown> = new Set(['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK'])

function eventOf(what: string, line: string, kind: Kind): WatchEvent {
  let event: unknown
  try {
    event = decodeJson(line)
  } catch (cause) {
    throw new KubeError(`${what}: an event of ${line.length} characters is not JSON`, { reason: 'BadAnswer', cause })
  }
  const { type, object } = isFields(event) ? event : ({} as Fields)
  if (type === 'ERROR') throw errorOfStatus(what, object)
  if (!TYPES.has(type) || !isFields(object) || !isFields(object['metadata']))
    throw new KubeError(`${what}: ${JSON.stringify(textAt(event, 'type') ?? null)} is not an event we know`, { reason: 'BadAnswer' })
  object['apiVersion'] = kind.apiVersion
  object['kind'] = kind.kind
  return event as WatchEvent
}

function errorOfStream(what: string, error: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted) return signal.reason
  if (error instanceof KubeError) return error
  if (error instanceof LineTooLong) return new KubeError(`${what}: ${error.message}`, { reason: 'BadAnswer', cause: error })
  if (error instanceof Error && 'code' in error)
    return new KubeError(`${what}: ${String(error.code)}: ${error.message}`, { reason: 'Unreachable', cause: error })
  return error
}
