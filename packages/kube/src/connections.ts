// The connections to one API server. TLS material may change while we run: the next request then goes over new connections, and
// running watches keep theirs until they end by themselves.
import type { Clock } from '@brokkr/runtime/clock.ts'
import Agent from 'undici/lib/dispatcher/agent.js'
import { KubeError } from './api-error.ts'
import type { Credentials, TlsFacts } from './credentials.ts'
import type { KubeConfig } from './kube-config.ts'

export interface Connections {
  agent(): Promise<Agent>
  /** The next request looks at the TLS material again, however recently that was done. */
  recheck(): void
  close(): Promise<void>
}

const CHECK_EVERY_MS = 5_000

export function createConnections(deps: { config: KubeConfig; credentials: Credentials; clock: Clock }): Connections {
  let current: { agent: Agent; facts: TlsFacts } | undefined
  let checkedAtMs = Number.NEGATIVE_INFINITY
  let checking: Promise<Agent> | undefined
  let closed = false

  async function check(): Promise<Agent> {
    const facts = await deps.credentials.tls()
    if (closed) throw new KubeError(`${deps.config.server}: the client is closed`, { reason: 'Unreachable' })
    checkedAtMs = deps.clock.monotonicMs()
    if (current && sameFacts(current.facts, facts)) return current.agent
    current?.agent.close().catch(() => undefined)
    current = { agent: newAgent(deps.config, facts), facts }
    return current.agent
  }

  return {
    agent() {
      if (current && !closed && deps.clock.monotonicMs() - checkedAtMs < CHECK_EVERY_MS) return Promise.resolve(current.agent)
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
      await current?.agent.destroy()
    },
  }
}

const sameFacts = (a: TlsFacts, b: TlsFacts): boolean => a.ca === b.ca && a.cert === b.cert && a.key === b.key

const newAgent = (config: KubeConfig, facts: TlsFacts): Agent =>
  new Agent({
    allowH2: false,
    pipelining: 1,
    // Below the API server's own idle limit of 90 s, so that we rarely meet a connection that it is closing.
    keepAliveTimeout: 30_000,
    keepAliveMaxTimeout: 60_000,
    connect: {
      timeout: 10_000,
      keepAlive: true,
      keepAliveInitialDelay: 15_000,
      rejectUnauthorized: true,
      ...facts,
      ...(config.tlsServerName ? { servername: config.tlsServerName } : {}),
    },
  })
