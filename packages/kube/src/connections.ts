// The connections to one API server. TLS material may change while we run: the next request then goes over new connections, and
// running watches keep theirs until they end by themselves.
import { createSecureContext } from 'node:tls'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { KubeError } from './api-error.ts'
import { type CallConnections, createCallConnections } from './call-connections.ts'
import type { Credentials, TlsFacts } from './credentials.ts'
import type { KubeConfig } from './kube-config.ts'
import { createStreamConnections, type StreamConnections } from './stream-connections.ts'

/** Calls have connections of their own, because they are read differently. */
export interface Agents {
  calls: CallConnections
  streams: StreamConnections
}

export interface Connections {
  agents(): Promise<Agents>
  /** Undefined: something has to be looked at first. */
  agentsNow(): Agents | undefined
  /** The next request looks at the TLS material again, however recently that was done. */
  recheck(): void
  close(): void
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

  const agentsNow = (): Agents | undefined =>
    current && !closed && deps.clock.monotonicMs() - checkedAtMs < CHECK_EVERY_MS ? current.agents : undefined

  return {
    agentsNow,
    agents() {
      const now = agentsNow()
      if (now) return Promise.resolve(now)
      // One check for all who come at once: a second agent made beside the first would close it under a request.
      checking ??= check().finally(() => {
        checking = undefined
      })
      return checking
    },
    recheck() {
      checkedAtMs = Number.NEGATIVE_INFINITY
    },
    close() {
      closed = true
      current?.agents.streams.destroy()
      current?.agents.calls.destroy(new KubeError(`${deps.config.server}: the client is closed`, { reason: 'Unreachable' }))
    },
  }
}

/** What is under way on them goes on. */
function leave({ calls, streams }: Agents): void {
  calls.close()
  streams.close()
}

const sameFacts = (a: TlsFacts, b: TlsFacts): boolean => a.ca === b.ca && a.cert === b.cert && a.key === b.key

function newAgents(config: KubeConfig, facts: TlsFacts): Agents {
  // One for all of them: each connection would make and keep its own, which takes longer than the rest of opening it.
  const secure = config.server.startsWith('https:') ? { secureContext: createSecureContext(facts) } : {}
  const tls = { rejectUnauthorized: true, ...secure, ...(config.tlsServerName ? { servername: config.tlsServerName } : {}) }
  return { calls: createCallConnections(config.server, tls), streams: createStreamConnections(config.server, tls) }
}
