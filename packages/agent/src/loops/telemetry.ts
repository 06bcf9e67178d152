// Sends events and log lines, once a second in bounded batches while there are any. A broker that is away costs what does not fit
// meanwhile, and the loss is told; one that knows no telemetry costs everything, silently but for the count.

import { ApiError } from '@brokkr/contract/error.ts'
import type { AgentId } from '@brokkr/contract/wire.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import type { BrokerHttp } from '../broker-http.ts'
import type { TelemetryRing } from '../telemetry/ring.ts'
import { isNotServed } from './send-events.ts'

export interface TelemetryDeps {
  readonly broker: Pick<BrokerHttp, 'post'>
  readonly pak: () => string
  readonly agentId: AgentId
  readonly ring: TelemetryRing
  readonly now: () => number
  readonly everyMs: number
}
const batch = { count: 500, bytes: 256 * 1024 }
const batchesMax = 20

export const telemetryLoop = (deps: TelemetryDeps): Loop => ({
  name: 'telemetry',
  everyMs: () => (deps.ring.isEmpty ? Infinity : deps.everyMs),
  run: async (signal) => {
    let sent = 0
    for (let batches = 0; !deps.ring.isEmpty && batches < batchesMax; batches++) {
      const taken = deps.ring.take(batch)
      try {
        await send(deps, taken, signal)
        sent += taken.items.length
      } catch (error) {
        if (!isNotServed(error) && !isRefused(error)) deps.ring.putBack(taken)
        else for (const { stackId } of taken.items) deps.ring.drop(stackId, 'disconnected')
        if (!isNotServed(error)) throw error
        // Nobody wants to hear of what is lost either.
        deps.ring.take({ count: 0, bytes: 0 })
        return { sent }
      }
    }
    return { sent }
  },
})

const isRefused = (error: unknown): boolean => error instanceof ApiError && [400, 413, 422].includes(error.status)

async function send(
  { broker, pak, agentId, now }: TelemetryDeps,
  { items, gaps }: ReturnType<TelemetryRing['take']>,
  signal: AbortSignal,
): Promise<void> {
  const bodies = (kind: string) => items.filter(({ is }) => is === kind).map(({ body }) => body)
  const body = {
    k8s_events: bodies('k8s_event'),
    pod_log_lines: bodies('pod_log_line'),
    log_gaps: gaps.map((gap) => ({ agent_id: agentId, ...gap, until_ts: new Date(now()).toISOString() })),
  }
  await broker.post(`/api/v1/agents/${agentId}/telemetry`, { authorization: `Bearer ${pak()}`, body, signal })
}
