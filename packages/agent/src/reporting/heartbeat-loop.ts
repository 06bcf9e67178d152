// Sends the heartbeat with the state of the API server and reads the agent status: an agent that is not ACTIVE pauses. After three missed
// heartbeats the broker shows it as disconnected.
import type { Heartbeat } from '@brokkr/contract/agents/agent.ts'
import { Agent } from '@brokkr/contract/agents/agent.ts'
import type { Client } from '@brokkr/contract/client.ts'
import type { AgentId } from '@brokkr/contract/wire.ts'
import type { Kube } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import { z } from 'zod'
import type { AgentMetrics } from '../metrics.ts'
import type { AgentConditions } from './agent-conditions.ts'

export interface HeartbeatDeps {
  readonly client: Client
  readonly agentId: AgentId
  readonly kube: Pick<Kube, 'request'>
  readonly clock: Clock
  readonly log: Log
  readonly metrics: AgentMetrics
  readonly conditions: AgentConditions
  readonly version: string
  readonly everyMs: Loop['everyMs']
  /** Facts about the agent, sent after a change. */
  readonly facts: () => Record<string, unknown>
}
/** The API server responds in milliseconds; longer means that it is overloaded. */
const probeTimeoutMs = 5_000

export function heartbeatLoop(deps: HeartbeatDeps): Loop {
  let toldFacts = ''
  return {
    name: 'heartbeat',
    everyMs: deps.everyMs,
    run: async (signal) => {
      const cluster = await probe(deps, signal)
      deps.conditions.setClusterProblem(cluster.k8s_reachable ? null : 'the API server does not answer')
      const facts = deps.facts()
      const factsText = JSON.stringify(facts)
      try {
        await beat(deps, { ...cluster, agent_version: deps.version, ...(factsText === toldFacts ? {} : { facts }) }, signal)
        toldFacts = factsText
        deps.metrics.heartbeats.inc()
        if (deps.conditions.setBrokerProblem(null, deps.clock.now())) deps.log.info('broker reachable')
      } catch (error) {
        signal.throwIfAborted()
        if (deps.conditions.setBrokerProblem(errorText(error), deps.clock.now()))
          deps.log.warn('broker unreachable', { why: errorText(error) })
      }
    },
  }
}

/** Only a response of the expected form changes the status. */
const Called = z.object({ agent: Agent.pick({ status: true }) })

async function beat(deps: HeartbeatDeps, body: Heartbeat, signal: AbortSignal): Promise<void> {
  const params = { id: deps.agentId }
  const headers = { prefer: 'return=representation' }
  const answer = await deps.client.call('recordHeartbeat', { params, body }, { headers, signal })
  // A v1 broker responds without a body.
  const response = answer.status === 204 ? { agent: await deps.client.getAgent({ params }, { signal }) } : answer.body
  deps.conditions.setStatus(Called.parse(response).agent.status)
}

async function probe({ kube, clock, log, conditions }: HeartbeatDeps, signal: AbortSignal) {
  const startedMs = clock.monotonicMs()
  try {
    const answer = await kube.request('GET', '/version', { urgent: true, timeoutMs: probeTimeoutMs, signal })
    const k8s_version = parseVersion(answer.text)
    return {
      k8s_reachable: true,
      k8s_api_latency_ms: Math.round(clock.monotonicMs() - startedMs),
      ...(k8s_version === null ? {} : { k8s_version }),
    }
  } catch (error) {
    signal.throwIfAborted()
    if (conditions.isClusterReachable) log.warn('API server unreachable', { why: errorText(error) })
    return { k8s_reachable: false }
  }
}

export function parseVersion(text: string): string | null {
  try {
    const { gitVersion } = JSON.parse(text) as { gitVersion?: unknown }
    return typeof gitVersion === 'string' ? gitVersion.slice(0, 64) : null
  } catch {
    return null
  }
}
