// Claims the oldest work order, executes it and reports the result until the broker has it. Continues orders that were claimed before a
// restart first.
import type { Client } from '@brokkr/contract/client.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { AgentId } from '@brokkr/contract/wire.ts'
import type { WorkOrder } from '@brokkr/contract/work-orders/work-order.ts'
import { API_RETRY, classifyFailure, retrying } from '@brokkr/kube'
import { backoffDelayMs } from '@brokkr/runtime/backoff.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import type { AgentMetrics } from '../metrics.ts'
import type { WritePermit } from '../policy/write-permit.ts'
import { isNotServed } from '../reporting/send-events.ts'
import { isRetryable } from './apply-order.ts'
import type { ClaimStore } from './claim-store.ts'
import { executeOrder } from './execute-order.ts'
import { type Order, type OrderDeps, type OrderResult, toFailure } from './order.ts'

export interface WorkOrdersDeps extends OrderDeps {
  readonly client: Client
  readonly agentId: AgentId
  readonly claimed: ClaimStore
  readonly permit: Pick<WritePermit, 'refusal'>
  readonly metrics: AgentMetrics
  readonly types: readonly string[]
  readonly concurrency: number
  readonly everyMs: Loop['everyMs']
}
/** Responses of the broker after which the report is done. */
const finalStatuses: ReadonlySet<number> = new Set([403, 404, 409])

export function workOrdersLoop(deps: WorkOrdersDeps): Loop {
  const running = new Map<string, Promise<void>>()
  let hasLooked = false

  function begin(order: Order, isRecorded: boolean, signal: AbortSignal): void {
    if (running.has(order.id)) return
    const work = executeAndReport(deps, order, isRecorded, signal)
      .catch((error: unknown) => signal.aborted || deps.log.warn('work order result not sent', { id: order.id, why: errorText(error) }))
      .finally(() => running.delete(order.id))
    running.set(order.id, work as Promise<void>)
  }

  return {
    name: 'work-orders',
    everyMs: deps.everyMs,
    run: async (signal) => {
      if (deps.permit.refusal !== null) return {}
      if (!hasLooked) for (const order of await deps.claimed.all(signal)) begin(order, true, signal)
      hasLooked = true
      for (const order of await pending(deps, signal)) {
        if (running.size >= deps.concurrency || signal.aborted) break
        const claimed = running.has(order.id) ? null : await claim(deps, order, signal)
        if (claimed !== null) begin(claimed, false, signal)
      }
      return { running: running.size }
    },
  }
}

async function pending({ client, agentId }: WorkOrdersDeps, signal: AbortSignal): Promise<WorkOrder[]> {
  try {
    return await client.listPendingForAgent({ params: { agent_id: agentId } }, { signal })
  } catch (error) {
    if (isNotServed(error)) return []
    throw error
  }
}

/** Null: another agent claimed it first, or it no longer exists. */
async function claim(deps: WorkOrdersDeps, { id }: WorkOrder, signal: AbortSignal): Promise<Order | null> {
  const { client, agentId, clock } = deps
  try {
    const claimedAtMs = clock.now()
    const { work_type, yaml_content, claim_timeout_seconds, attempt, retry_count } = await client.claimWorkOrder(
      { params: { id }, body: { agent_id: agentId } },
      { signal },
    )
    // A v1 broker sends only the retry count.
    return { id, work_type, yaml_content, claim_timeout_seconds, claimedAtMs, attempt: attempt ?? retry_count + 1 }
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null
    throw error
  }
}

async function executeAndReport(deps: WorkOrdersDeps, order: Order, isRecorded: boolean, signal: AbortSignal): Promise<void> {
  const startedMs = deps.clock.monotonicMs()
  const unrecorded = isRecorded ? null : await record(deps, order, signal)
  const result = unrecorded ?? (await executeOrder(deps, order, deps.types, signal))
  const fields = { id: order.id, type: order.work_type, attempt: order.attempt, ms: Math.round(deps.clock.monotonicMs() - startedMs) }
  deps.log.info('work order ended', { ...fields, success: result.success })
  deps.metrics.workOrders.inc({
    type: deps.types.includes(order.work_type) ? order.work_type : 'other',
    result: result.success ? 'success' : 'failure',
  })
  await complete(deps, order, result, signal)
  const end = () => deps.claimed.end(order.id, deps.clock.now())
  // A remaining record would make the next process execute the order again. The first deletion runs also while the agent stops.
  await end().catch(() => retrying(deps, API_RETRY, end, signal))
}

/** Records the order, so that the next process continues it. An order that cannot be recorded is returned to the broker at once instead of
 *  waiting for the end of its claim. */
async function record(deps: WorkOrdersDeps, order: Order, signal: AbortSignal): Promise<OrderResult | null> {
  try {
    await retrying(deps, API_RETRY, () => deps.claimed.keep(order, signal), signal)
    return null
  } catch (error) {
    signal.throwIfAborted()
    const { code, message } = classifyFailure(error)
    return toFailure(`${code}: the work order was not recorded in the namespace of the agent: ${message}`, isRetryable(code))
  }
}

async function complete(deps: WorkOrdersDeps, order: Order, result: OrderResult, signal: AbortSignal): Promise<void> {
  const { success, message } = result
  const body = { success, message, attempt: order.attempt, ...('retryable' in result ? { retryable: result.retryable } : {}) }
  for (let failures = 0; ; failures++) {
    try {
      await deps.client.call('completeWorkOrder', { params: { id: order.id }, body }, { signal })
      return
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof ApiError && error.hasBody && finalStatuses.has(error.status)) return
      await deps.clock.sleep(backoffDelayMs({ baseMs: 1_000, maxMs: 60_000, jitter: 'equal' }, failures), signal)
    }
  }
}
