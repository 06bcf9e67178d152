// Watches changes of resources. A change names a resource, which the caller reads again. After a lost connection the watch opens
// again with its last cursor; `open` with mode `reset` tells that changes may be missing and everything has to be read once.
import type { FrameOf } from '@brokkr/contract/feed/stream.ts'
import { type ApiError, ConnectionError, readApiError } from './errors.ts'
import { readLines } from './lines.ts'
import { delay, randomShare } from './retry.ts'
import { routes } from './routes.ts'
import { findRootCause, originOf, toQueryText } from './transport.ts'

export interface WatchOptions {
  /** `stack:<id>`, `agent:<id>`, `generator:<id>`, `work_order:<id>`, `kind:<object kind>`; at most 64. */
  readonly scope: readonly string[]
  /** Of an earlier watch with the same scopes. */
  readonly cursor?: string
  readonly signal?: AbortSignal
}
export type WatchEvent =
  | { readonly type: 'open'; readonly mode: 'resume' | 'reset' }
  | FrameOf<'change'>
  /** Everything up to here was reported; a later watch resumes from it. */
  | FrameOf<'bookmark'>
  /** The connection ended; the next attempt follows by itself. */
  | { readonly type: 'lost'; readonly error: Error | null; readonly retryMs: number }

interface WatchTarget {
  readonly baseUrl: string
  /** Read for each connection. */
  readonly headers: () => Record<string, string>
}

const openTimeoutMs = 30_000
const retryMsMax = 10_000
/** Pings that may be missing before the connection counts as lost. */
const missedPings = 3

export async function* watchChanges(target: WatchTarget, options: WatchOptions): AsyncGenerator<WatchEvent> {
  let cursor = options.cursor
  for (let failures = 0; ; failures += 1) {
    let retryMs = Math.min(retryMsMax, 250 * 2 ** failures) * (0.5 + randomShare() / 2)
    let error: Error | null = null
    try {
      for await (const frame of readWatch(target, { ...options, ...(cursor === undefined ? {} : { cursor }) })) {
        if (frame.type === 'hello') {
          failures = -1
          yield { type: 'open', mode: frame.mode === 'resume' ? 'resume' : 'reset' }
        } else if (frame.type === 'bookmark' || frame.type === 'change') {
          if (frame.type === 'bookmark') cursor = frame.cursor
          yield frame
        } else {
          cursor = frame.cursor ?? cursor
          retryMs = frame.retry_after_ms
        }
      }
    } catch (thrown) {
      options.signal?.throwIfAborted()
      if (!(thrown instanceof Error)) throw thrown
      if (isBadCursor(thrown) && cursor !== undefined) {
        cursor = undefined
        continue
      }
      if (isFinal(thrown)) throw thrown
      error = thrown
    }
    yield { type: 'lost', error, retryMs }
    await delay(retryMs, options.signal)
  }
}

const isApiError = (error: Error): error is ApiError => error.name === 'ApiError'
const isBadCursor = (error: Error): boolean => isApiError(error) && error.code === 'bad_cursor'
/** Another attempt would get the same answer. */
const isFinal = (error: Error): boolean => isApiError(error) && error.status < 500 && ![408, 429].includes(error.status)

type WatchFrame = FrameOf<'hello'> | FrameOf<'change'> | FrameOf<'bookmark'> | FrameOf<'bye'>
const known: ReadonlySet<string> = new Set(['hello', 'change', 'bookmark', 'bye'])

/** Frames of one connection. */
async function* readWatch(target: WatchTarget, options: WatchOptions): AsyncGenerator<WatchFrame> {
  const [method = '', path = ''] = routes.watch.split(' ')
  const url = target.baseUrl.replace(/\/+$/, '') + path + toQueryText({ scope: options.scope, cursor: options.cursor })
  const silence = createSilenceTimer(openTimeoutMs)
  const signal = options.signal === undefined ? silence.signal : AbortSignal.any([options.signal, silence.signal])
  try {
    const headers = { accept: 'application/x-ndjson', ...target.headers() }
    const response = await fetch(url, { method, headers, redirect: 'error', signal })
    if (!response.ok) throw readApiError({ status: response.status, header: (name) => response.headers.get(name) }, await response.text())
    if (response.body === null) throw new Error('the answer has no body')
    for await (const line of readLines(response.body)) {
      silence.restart()
      const frame = JSON.parse(line) as WatchFrame
      if (frame.type === 'hello') silence.restart(frame.heartbeat_ms * missedPings)
      if (known.has(frame.type)) yield frame
    }
  } catch (error) {
    if (error instanceof Error && isApiError(error)) throw error
    throw new ConnectionError(originOf(url), silence.signal.aborted ? new Error('the broker is silent') : findRootCause(error))
  } finally {
    silence.stop()
  }
}

/** Aborts when it was not restarted for its time. */
function createSilenceTimer(firstMs: number): { signal: AbortSignal; restart: (ms?: number) => void; stop: () => void } {
  const controller = new AbortController()
  let ms = firstMs
  const start = () => setTimeout(() => controller.abort(new Error('silent')), ms)
  let timer = start()
  return {
    signal: controller.signal,
    restart: (next = ms) => {
      ms = next
      clearTimeout(timer)
      timer = start()
    },
    stop: () => {
      clearTimeout(timer)
      // Frees the connection when the caller stops reading.
      controller.abort(new Error('stopped'))
    },
  }
}
