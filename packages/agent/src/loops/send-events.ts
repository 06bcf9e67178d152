// Sends what happened, oldest first, in batches; one by one to a broker that knows no batches, or that refuses one as a whole.
// An event leaves the spool when the broker has it, or when it would refuse it for ever.
import type { Client } from '@brokkr/contract/client.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import type { AgentId } from '@brokkr/contract/wire.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { AgentMetrics } from '../metrics.ts'
import type { SpooledEvent } from '../reconcile/event-spool.ts'
import type { Outbox } from '../reconcile/outbox.ts'

export interface SendEventsDeps {
  readonly client: Client
  readonly agentId: AgentId
  readonly outbox: Outbox
  readonly log: Log
  readonly metrics: AgentMetrics
}
/** So that rows have their turn too. */
const batchesMax = 10

/** Throws what may be tried again; what was taken by then is done. */
export async function sendEvents(deps: SendEventsDeps, signal: AbortSignal): Promise<number> {
  let sent = 0
  for (let batches = 0; batches < batchesMax; batches++) {
    const events = deps.outbox.nextEvents()
    if (events.length === 0) break
    await sendBatch(deps, events, signal)
    sent += events.length
  }
  return sent
}

async function sendBatch(deps: SendEventsDeps, events: SpooledEvent[], signal: AbortSignal): Promise<void> {
  try {
    const { results } = await deps.client.createEvents({ params: { id: deps.agentId }, body: { events } }, { signal })
    const refusals = new Map(results.flatMap(({ id, status, code }) => (status === 'refused' ? [[id, code ?? 'refused']] : [])))
    for (const event of events) taken(deps, event, refusals.get(event.id) ?? null)
  } catch (error) {
    if (!isNotServed(error) && !isRefusedForGood(error)) throw error
    for (const event of events) await sendOne(deps, event, signal)
  }
}

async function sendOne(deps: SendEventsDeps, event: SpooledEvent, signal: AbortSignal): Promise<void> {
  try {
    await deps.client.createEvent({ params: { id: deps.agentId }, body: event }, { signal })
    taken(deps, event, null)
  } catch (error) {
    if (!isRefusedForGood(error)) throw error
    taken(deps, event, errorText(error))
  }
}

function taken({ outbox, log, metrics }: SendEventsDeps, event: SpooledEvent, refusal: string | null): void {
  if (refusal !== null) {
    log.warn('event refused', { event: event.event_type, object_id: event.deployment_object_id, why: refusal })
    metrics.eventsLost.inc({ reason: 'refused' })
  }
  outbox.eventDone(event)
}

/** The broker, or what stands before it, does not know the operation. */
export const isNotServed = (error: unknown): boolean =>
  error instanceof ApiError && (error.code === 'route_not_found' || error.code === 'method_not_allowed' || error.code === 'not_available')

/** The same would be refused again; a key that is refused may be renewed, and a busy broker has time later. */
export const isRefusedForGood = (error: unknown): boolean =>
  error instanceof ApiError && error.status >= 400 && error.status < 500 && ![401, 404, 405, 408, 425, 426, 429].includes(error.status)
