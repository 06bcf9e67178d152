// Sends events and log lines once a second in bounded batches. While the broker is unreachable the buffer drops the oldest and reports
// the loss. Asks first whether the broker accepts telemetry, then every ten minutes; without it nothing is collected.

import { ApiError } from '@brokkr/contract/errors.ts'
import type { AgentId } from '@brokkr/contract/wire.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import type { BrokerHttp } from '../connection/broker-http.ts'
import { isNotServed } from '../reporting/send-events.ts'
import type { TelemetryBuffer } from './telemetry-buffer.ts'

export interface TelemetryDeps {
  readonly broker: Pick<BrokerHttp, 'post'>
  readonly pak: () => string
  readonly agentId: AgentId
  readonly ring: TelemetryBuffer
  readonly now: () => number
  readonly everyMs: number
  /** Called when the broker starts or stops accepting telemetry. */
  readonly onServed?: (isServed: boolean) => void
}
const batch = { count: 500, bytes: 256 * 1024 }
const batchesMax = 20
const notServedMs = 600_000
const unknownMs = 30_000
const nothing = { items: [], gaps: [] }

export function telemetryLoop(deps: TelemetryDeps): Loop {
  let isServed = false
  let askedMs = 0
  const setServed = (served: boolean) => {
    askedMs = served ? 0 : notServedMs
    if (served !== isServed) deps.onServed?.(served)
    isServed = served
  }

  async function sendAll(signal: AbortSignal): Promise<number> {
    let sent = 0
    for (let batches = 0; !deps.ring.isEmpty && batches < batchesMax; batches++) {
      const batchItems = deps.ring.take(batch)
      try {
        await send(deps, batchItems, signal)
        sent += batchItems.items.length
      } catch (error) {
        if (!isNotServed(error) && !isRefused(error)) deps.ring.putBack(batchItems)
        else for (const { stackId } of batchItems.items) deps.ring.drop(stackId, 'disconnected')
        throw error
      }
    }
    return sent
  }

  return {
    name: 'telemetry',
    everyMs: () => (!isServed ? Math.max(askedMs, deps.everyMs) : deps.ring.isEmpty ? Infinity : deps.everyMs),
    run: async (signal) => {
      try {
        if (!isServed && deps.ring.isEmpty) await send(deps, nothing, signal)
        const sent = await sendAll(signal)
        setServed(true)
        return { sent }
      } catch (error) {
        if (!isNotServed(error)) {
          if (!isServed) askedMs = unknownMs
          throw error
        }
        setServed(false)
        // The gaps have the same receiver.
        deps.ring.take({ count: 0, bytes: 0 })
        return { sent: 0 }
      }
    },
  }
}

const isRefused = (error: unknown): boolean => error instanceof ApiError && [400, 413, 422].includes(error.status)

async function send(
  { broker, pak, agentId, now }: TelemetryDeps,
  { items, gaps }: ReturnType<TelemetryBuffer['take']>,
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
