// The connection pools of one API server. TLS files can change at run time: the next request then uses new pools, and requests in flight
// complete on the old ones.
import { createSecureContext } from 'node:tls'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Credentials, TlsFacts } from '../auth/credentials.ts'
import type { KubeConfig } from '../auth/kube-config.ts'
import { KubeError } from '../client/kube-error.ts'
import { createRequestPool, type RequestPool } from './request-pool.ts'
import { createStreamConnections, type StreamConnections } from './stream-connections.ts'

export interface ConnectionPools {
  /** For requests with a whole response. */
  requests: RequestPool
  /** For lists that are decoded while they arrive, and for watches. */
  streams: StreamConnections
}

export interface Connections {
  pools(): Promise<ConnectionPools>
  /** Returns undefined while the TLS files have to be checked first. */
  poolsNow(): ConnectionPools | undefined
  /** Makes the next request check the TLS files, however recent the last check is. */
  recheck(): void
  close(): void
}

const CHECK_EVERY_MS = 5_000

export function createConnections(deps: { config: KubeConfig; credentials: Credentials; clock: Clock }): Connections {
  let current: { pools: ConnectionPools; facts: TlsFacts } | undefined
  let checkedAtMs = Number.NEGATIVE_INFINITY
  let pendingCheck: Promise<ConnectionPools> | undefined
  let isClosed = false
  const closedError = () => new KubeError(`${deps.config.server}: the client is closed`, { reason: 'Unreachable' })

  async function check(): Promise<ConnectionPools> {
    const facts = await deps.credentials.tls()
    if (isClosed) throw closedError()
    checkedAtMs = deps.clock.monotonicMs()
    if (current && isSameTls(current.facts, facts)) return current.pools
    const pools = createPools(deps.config, facts)
    current?.pools.requests.close()
    current?.pools.streams.close()
    current = { pools, facts }
    return pools
  }

  const poolsNow = (): ConnectionPools | undefined =>
    current && !isClosed && deps.clock.monotonicMs() - checkedAtMs < CHECK_EVERY_MS ? current.pools : undefined

  return {
    poolsNow,
    pools() {
      const pools = poolsNow()
      if (pools) return Promise.resolve(pools)
      // Concurrent requests share one check: a second check could create pools that close the first ones under a request.
      pendingCheck ??= check().finally(() => {
        pendingCheck = undefined
      })
      return pendingCheck
    },
    recheck() {
      checkedAtMs = Number.NEGATIVE_INFINITY
    },
    close() {
      isClosed = true
      current?.pools.streams.destroy()
      current?.pools.requests.destroy(closedError())
    },
  }
}

const isSameTls = (a: TlsFacts, b: TlsFacts): boolean => a.ca === b.ca && a.cert === b.cert && a.key === b.key

function createPools(config: KubeConfig, facts: TlsFacts): ConnectionPools {
  // One secure context for all connections: creating one takes longer than the rest of the connection setup.
  const secure = config.server.startsWith('https:') ? { secureContext: createSecureContext(facts) } : {}
  const tls = { rejectUnauthorized: true, ...secure, ...(config.tlsServerName ? { servername: config.tlsServerName } : {}) }
  return { requests: createRequestPool(config.server, tls), streams: createStreamConnections(config.server, tls) }
}
