// Delivers webhooks that the broker leaves to agents, because only they reach the receiver. Address and credential stay in memory for one
// request. Addresses that an agent must not reach are refused.
import type { Client } from '@brokkr/contract/client.ts'
import type { AgentId } from '@brokkr/contract/wire.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Outbound } from '@brokkr/runtime/http-client/outbound-client.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import { isNotServed } from '../reporting/send-events.ts'

export interface DeliveriesDeps {
  readonly client: Client
  readonly agentId: AgentId
  readonly outbound: Pick<Outbound, 'request'>
  /** Throws for a receiver that the agent must not reach. */
  readonly check: (url: string) => void
  readonly clock: Clock
  readonly log: Log
  readonly everyMs: number
}
type Delivery = Awaited<ReturnType<Client['getPendingAgentWebhooks']>>[number]
const answerBytesMax = 64 * 1024
const errorCharsMax = 500
/** The broker gives at most ten at a time, so fewer than twice as many are in flight. */
const inFlightMax = 10

export interface DeliveriesLoop extends Loop {
  /** Resolves when no delivery is in flight. */
  whenIdle(): Promise<void>
}

/** A run does not wait for its deliveries: a receiver that hangs delays neither the next run nor other receivers. */
export function deliveriesLoop(deps: DeliveriesDeps): DeliveriesLoop {
  const inFlight = new Set<Promise<void>>()
  const start = (delivery: Delivery, signal: AbortSignal) => {
    const sending = deliver(deps, delivery, signal)
      // Only at shutdown: the lease expires, and the delivery is repeated with the same id.
      .catch((error: unknown) => deps.log.debug('delivery interrupted', { id: delivery.id, why: errorText(error) }))
      .finally(() => inFlight.delete(sending))
    inFlight.add(sending)
  }
  return {
    name: 'webhooks',
    everyMs: deps.everyMs,
    run: async (signal) => {
      if (inFlight.size >= inFlightMax) return { started: 0, in_flight: inFlight.size }
      const deliveries = await pending(deps, signal)
      for (const delivery of deliveries) start(delivery, signal)
      return { started: deliveries.length, in_flight: inFlight.size }
    },
    async whenIdle() {
      while (inFlight.size > 0) await Promise.all(inFlight)
    },
  }
}

async function pending({ client, agentId }: DeliveriesDeps, signal: AbortSignal): Promise<Delivery[]> {
  try {
    return await client.getPendingAgentWebhooks({ params: { agent_id: agentId } }, { signal })
  } catch (error) {
    if (isNotServed(error)) return []
    throw error
  }
}

async function deliver(deps: DeliveriesDeps, delivery: Delivery, signal: AbortSignal): Promise<void> {
  const startedMs = deps.clock.monotonicMs()
  const outcome = await send(deps, delivery, signal)
  const body = { ...outcome, duration_ms: Math.round(deps.clock.monotonicMs() - startedMs) }
  try {
    await deps.client.reportDeliveryResult({ params: { id: delivery.id }, body }, { signal })
  } catch (error) {
    // The lease expires, and the delivery is repeated with the same id.
    deps.log.warn('delivery not reported', { id: delivery.id, why: errorText(error) })
  }
}

async function send(deps: DeliveriesDeps, delivery: Delivery, signal: AbortSignal) {
  try {
    deps.check(delivery.url)
    const answer = await deps.outbound.request({
      url: delivery.url,
      method: 'POST',
      body: delivery.payload,
      headers: {
        'content-type': 'application/json',
        ...delivery.headers,
        ...(delivery.auth_header === null ? {} : { authorization: delivery.auth_header }),
        'x-brokkr-event-type': delivery.event_type,
        'x-brokkr-delivery-id': delivery.id,
      },
      timeoutMs: delivery.timeout_seconds * 1000,
      answerBytesMax,
      overflow: 'cut',
      signal,
    })
    const isGood = answer.status >= 200 && answer.status < 300
    const text = isGood ? {} : { error: `HTTP ${answer.status}: ${answer.body.toString('utf8')}`.slice(0, errorCharsMax) }
    return { success: isGood, status_code: answer.status, ...text }
  } catch (error) {
    signal.throwIfAborted()
    return { success: false, error: withoutUrl(errorText(error), delivery.url).slice(0, errorCharsMax) }
  }
}

/** The path of a webhook address is often secret. */
const withoutUrl = (text: string, url: string): string => text.replaceAll(url, '(the receiver)')
