// Sends agent events, oldest first, in batches; one by one if the broker has no batches or refuses one. An event leaves the spool only if
// the response names it as stored or refused; another response, such as an HTML page of a proxy, keeps it.
import type { Client } from '@brokkr/contract/client.ts'
import { ApiError, type ErrorCode } from '@brokkr/contract/errors.ts'
import type { AgentId } from '@brokkr/contract/wire.ts'
import { errorText, Retryable } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { AgentMetrics } from '../metrics.ts'
import type { SpooledEvent } from './event-spool.ts'
import type { Outbox } from './outbox.ts'

export interface SendEventsDeps {
  readonly client: Client
  readonly agentId: AgentId
  readonly outbox: Outbox
  readonly log: Log
  readonly metrics: AgentMetrics
}
/** Limits the batches per run, so that status rows are sent too. */
const batchesMax = 10

/** Throws if a retry may help; events accepted before are done. */
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
    const outcomes = new Map(results.map(({ id, status, code }) => [id, status === 'refused' ? (code ?? 'refused') : null]))
    const acknowledged = events.filter(({ id }) => outcomes.has(id))
    for (const event of acknowledged) acknowledge(deps, event, outcomes.get(event.id) ?? null)
    if (acknowledged.length < events.length)
      throw new Retryable(`the answer names ${acknowledged.length} of ${events.length} events; the others stay`)
  } catch (error) {
    if (!isNotServed(error) && !isContentRefused(error) && !(isTooLarge(error) && events.length > 1)) throw error
    for (const event of events) await sendOne(deps, event, signal)
  }
}

async function sendOne(deps: SendEventsDeps, event: SpooledEvent, signal: AbortSignal): Promise<void> {
  try {
    await deps.client.createEvent({ params: { id: deps.agentId }, body: event }, { signal })
    acknowledge(deps, event, null)
  } catch (error) {
    if (!isContentRefused(error)) throw error
    acknowledge(deps, event, errorText(error))
  }
}

function acknowledge({ outbox, log, metrics }: SendEventsDeps, event: SpooledEvent, refusal: string | null): void {
  if (refusal !== null) {
    log.warn('agent event rejected', { event: event.event_type, object_id: event.deployment_object_id, why: refusal })
    metrics.eventsLost.inc({ reason: 'refused' })
  }
  outbox.eventDone(event)
}

/** The broker or an intermediary does not have the operation. */
export const isNotServed = (error: unknown): boolean =>
  error instanceof ApiError && (error.code === 'route_not_found' || error.code === 'method_not_allowed' || error.code === 'not_available')

/** Error codes about the content of a request body. */
const contentCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'agent_id_mismatch',
  'agent_not_associated',
  'bad_cursor',
  'check_violation',
  'foreign_key_violation',
  'invalid_json',
  'invalid_request_body',
  'not_null_violation',
  'payload_too_large',
  'unique_violation',
  'validation_failed',
])

/** The broker refused the content: repeating a single event or row has the same result. */
export const isContentRefused = (error: unknown): boolean => error instanceof ApiError && error.hasBody && contentCodes.has(error.code)

/** Too large for the broker or a proxy: smaller requests may pass. */
export const isTooLarge = (error: unknown): boolean => error instanceof ApiError && error.code === 'payload_too_large'
