// Says that we are alive and how the API server is doing, and hears what the broker calls us: an agent that is not ACTIVE
// pauses. The broker counts three missed ones as gone.
import type { Heartbeat } from '@brokkr/contract/agent.ts'
import { Agent } from '@brokkr/contract/agent.ts'
import type { Client } from '@brokkr/contract/client.ts'
import type { AgentId } from '@brokkr/contract/wire.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import { z } from 'zod'
import type { AgentMetrics } from '../metrics.ts'
import type { Standing } from './standing.ts'

export interface HeartbeatDeps {
  readonly client: Client
  readonly agentId: AgentId
  readonly kube: Pick<Kube, 'request'>
  readonly clock: Clock
  readonly log: Log
  readonly metrics: AgentMetrics
  readonly standing: Standing
  readonly version: string
  readonly everyMs: Loop['everyMs']
  /** What we say of ourselves; sent when it has changed. */
  readonly facts: () => Record<string, unknown>
}
/** The API server answers this in milliseconds; longer means that it is in trouble. */
const probeTimeoutMs = 5_000

export function heartbeatLoop(deps: HeartbeatDeps): Loop {
  let toldFacts = ''
  return {
    name: 'heartbeat',
    everyMs: deps.everyMs,
    run: async (signal) => {
      const cluster = await probe(deps, signal)
      deps.standing.cluster(cluster.k8s_reachable ? null : 'the API server does not answer')
      const facts = deps.facts()
      const factsText = JSON.stringify(facts)
      try {
        await beat(deps, { ...cluster, agent_version: deps.version, ...(factsText === toldFacts ? {} : { facts }) }, signal)
        toldFacts = factsText
        deps.metrics.heartbeats.inc()
        if (deps.standing.broker(null, deps.clock.now())) deps.log.info('broker answers')
      } catch (error) {
        signal.throwIfAborted()
        if (deps.standing.broker(errorText(error), deps.clock.now()))
          deps.log.warn('broker does not answer; what runs goes on', { why: errorText(error) })
      }
    },
  }
}

/** Only an answer of the expected shape says anything about us. */
const Called = z.object({ agent: Agent.pick({ status: true }) })

async function beat(deps: HeartbeatDeps, body: Heartbeat, signal: AbortSignal): Promise<void> {
  const params = { id: deps.agentId }
  const headers = { prefer: 'return=representation' }
  const answer = await deps.client.answer('recordHeartbeat', { params, body }, { headers, signal })
  // A broker of the first version answers with nothing.
  const seen = answer.status === 204 ? { agent: await deps.client.getAgent({ params }, { signal }) } : answer.body
  deps.standing.called(Called.parse(seen).agent.status)
}

async function probe({ kube, clock, log, standing }: HeartbeatDeps, signal: AbortSignal) {
  const startedMs = clock.monotonicMs()
  try {
    const answer = await kube.request('GET', '/version', { urgent: true, timeoutMs: probeTimeoutMs, signal })
    const k8s_version = versionIn(answer.text)
    return {
      k8s_reachable: true,
      k8s_api_latency_ms: Math.round(clock.monotonicMs() - startedMs),
      ...(k8s_version === null ? {} : { k8s_version }),
    }
  } catch (error) {
    signal.throwIfAborted()
    if (standing.isClusterWell) log.warn('API server does not answer', { why: errorText(error) })
    return { k8s_reachable: false }
  }
}

export function versionIn(text: string): string | null {
  try {
    const { gitVersion } = JSON.parse(text) as { gitVersion?: unknown }
    return typeof gitVersion === 'string' ? gitVersion.slice(0, 64) : null
  } catch {
    return null
  }
}
