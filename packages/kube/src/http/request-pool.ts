// Connections for requests whose response is read as a whole: undici's Pool with one request per connection at a time. The pool opens as
// many connections as requests are in flight; the request limiter bounds that number.
import type { ConnectionOptions } from 'node:tls'
import { Client, type Dispatcher, Pool } from 'undici'
import type { ResponseReader } from './response-reader.ts'

const CONNECT_TIMEOUT_MS = 10_000
/** Shorter than the API server's idle limit of 90 s, so that a request rarely meets a connection that the server is closing. */
const IDLE_MS = 30_000
const HEADER_BYTES_MAX = 64 * 1024

export interface PoolRequest {
  readonly method: Dispatcher.HttpMethod
  readonly path: string
  readonly headers: Record<string, string | string[]>
  readonly body: string | Uint8Array | undefined
}

export interface RequestPool {
  dispatch(request: PoolRequest, reader: ResponseReader): void
  /** Uses a connection that has carried no other request. */
  dispatchOnFreshConnection(request: PoolRequest, reader: ResponseReader): void
  /** Closes idle connections; requests in flight complete. */
  close(): void
  destroy(reason: Error): void
}

export function createRequestPool(server: string, tls: ConnectionOptions): RequestPool {
  const { origin } = new URL(server)
  const options: Pool.Options = {
    allowH2: false,
    keepAliveTimeout: IDLE_MS,
    keepAliveMaxTimeout: IDLE_MS,
    maxHeaderSize: HEADER_BYTES_MAX,
    // The reader has one time limit for the whole request.
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: { ...tls, timeout: CONNECT_TIMEOUT_MS, keepAlive: true, keepAliveInitialDelay: 15_000, maxCachedSessions: 0 } as object,
  }
  const pool = new Pool(origin, {
    ...options,
    pipelining: 1,
    factory: (url, clientOptions) => new TrackedClient(url, clientOptions),
  })
  let freshPool: Pool | undefined
  const swallow = (): undefined => undefined
  return {
    dispatch: (request, reader) => void pool.dispatch(request as Dispatcher.DispatchOptions, reader),
    dispatchOnFreshConnection(request, reader) {
      freshPool ??= new Pool(origin, { ...options, pipelining: 0 }) // 0 means no keep-alive
      freshPool.dispatch(request as Dispatcher.DispatchOptions, reader)
    },
    close() {
      pool.close().catch(swallow)
      freshPool?.close().catch(swallow)
    },
    destroy(reason) {
      pool.destroy(reason).catch(swallow)
      freshPool?.destroy(reason).catch(swallow)
    },
  }
}

/** Tells a reader whether its connection carried an earlier response. */
class TrackedClient extends Client {
  #isReused = false

  constructor(url: URL, options: Client.Options) {
    super(url, options)
    this.on('connect', () => {
      this.#isReused = false
    })
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const reader = handler as ResponseReader
    reader.checkReuse = () => {
      const isReused = this.#isReused
      this.#isReused = true
      return isReused
    }
    return super.dispatch(options, handler)
  }
}
