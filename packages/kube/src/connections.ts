// The connections to one API server. TLS material may change while we run: the next request then goes over new connections, and
// running watches keep theirs until they end by themselves.
import { createSecureContext } from 'node:tls'
import type { Clock } from '@brokkr/runtime/clock.ts'
import Agent from 'undici/lib/dispatcher/agent.js'
import { KubeError } from './api-error.ts'
import type { Credentials, TlsFacts } from './credentials.ts'
import type { KubeConfig } from './kube-config.ts'
import { createStreamConnections, type StreamConnections } from './stream-connections.ts'

/** Calls have connections of their own, because they are read differently. */
export interface Agents {
  calls: Agent
  streams: StreamConnections
}

export interface Connections {
  agents(): Promise<Agents>
  /** The next request looks at the TLS material again, however recently that was done. */
  recheck(): void
  close(): Promise<void>
}

const CHECK_EVERY_MS = 5_000

export function createConnections(deps: { config: KubeConfig; credentials: Credentials; clock: Clock }): Connections {
  let current: { agents: Agents; facts: TlsFacts } | undefined
  let checkedAtMs = Number.NEGATIVE_INFINITY
  let checking: Promise<Agents> | undefined
  let closed = false

  async function check(): Promise<Agents> {
    const facts = await deps.credentials.tls()
    if (closed) throw new KubeError(`${deps.config.server}: the client is closed`, { reason: 'Unreachable' })
    checkedAtMs = deps.clock.monotonicMs()
    if (current && sameFacts(current.facts, facts)) return current.agents
    const agents = newAgents(deps.config, facts)
    if (current) leave(current.agents)
    current = { agents, facts }
    return agents
  }

  return {
    agents() {
      if (current && !closed && deps.clock.monotonicMs() - checkedAtMs < CHECK_EVERY_MS) return Promise.resolve(current.agents)
      // One check for all who come at once: a second agent made beside the first would close it under a request.
      checking ??= check().finally(() => {
        checking = undefined
      })
      return checking
    },
    recheck() {
      checkedAtMs = Number.NEGATIVE_INFINITY
    },
    async close() {
      closed = true
      current?.agents.streams.destroy()
      await current?.agents.calls.destroy()
    },
  }
}

/** What is under way on them goes on. */
function leave({ calls, streams }: Agents): void {
  calls.close().catch(() => undefined)
  streams.close()
}

const sameFacts = (a: TlsFacts, b: TlsFacts): boolean => a.ca === b.ca && a.cert === b.cert && a.key === b.key

function newAgents(config: KubeConfig, facts: TlsFacts): Agents {
  // One for all of them: each connection would make and keep its own, which takes longer than the rest of opening it.
  const secure = config.server.startsWith('https:') ? { secureContext: createSecureContext(facts) } : {}
  const tls = { rejectUnauthorized: true, ...secure, ...(config.tlsServerName ? { servername: config.tlsServerName } : {}) }
  const options = {
    allowH2: false,
    pipelining: 1,
    // Below the API server's own idle limit of 90 s, so that we rarely meet a connection that it is closing.
    keepAliveTimeout: 30_000,
    keepAliveMaxTimeout: 60_000,
  }
  return {
    calls: new Agent({ ...options, connect: { timeout: 10_000, keepAlive: true, keepAliveInitialDelay: 15_000, ...tls } }),
    streams: createStreamConnections(config.server, tls),
  }
}
