// Looks for work orders, claims the oldest, has it carried out, and tells how it ended until the broker has heard it. What was
// claimed before a restart is gone on with first.
import type { Client } from '@brokkr/contract/client.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import type { AgentId } from '@brokkr/contract/wire.ts'
import type { WorkOrder } from '@brokkr/contract/work-order.ts'
import { backoffDelayMs } from '@brokkr/runtime/backoff.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import type { AgentMetrics } from '../metrics.ts'
import type { ClaimedOrders } from '../work-orders/claimed.ts'
import { carryOutOrder } from '../work-orders/index.ts'
import type { Order, OrderDeps, OrderResult } from '../work-orders/order.ts'
import type { WritePermit } from '../write-permit.ts'
import { isNotServed } from './send-events.ts'

export interface WorkOrdersDeps extends OrderDeps {
  readonly client: Client
  readonly agentId: AgentId
  readonly claimed: ClaimedOrders
  readonly permit: Pick<WritePermit, 'refusal'>
  readonly metrics: AgentMetrics
  readonly types: readonly string[]
  readonly concurrency: number
  readonly everyMs: Loop['everyMs']
}
/** Answers after which there is nothing more to tell. */
const heard: ReadonlySet<number> = new Set([403, 404, 409])

export function workOrdersLoop(deps: WorkOrdersDeps): Loop {
  const running = new Map<string, Promise<void>>()
  let hasLooked = false

  function begin(order: Order, signal: AbortSignal): void {
    if (running.has(order.id)) return
    const work = carryOutAndTell(deps, order, signal)
      .catch((error: unknown) => signal.aborted || deps.log.warn('work order not told', { id: order.id, why: errorText(error) }))
      .finally(() => running.delete(order.id))
    running.set(order.id, work as Promise<void>)
  }

  return {
    name: 'work-orders',
    everyMs: deps.everyMs,
    run: async (signal) => {
      if (deps.permit.refusal !== null) return {}
      if (!hasLooked) for (const order of await deps.claimed.all(signal)) begin(order, signal)
      hasLooked = true
      for (const order of await pending(deps, signal)) {
        if (running.size >= deps.concurrency || signal.aborted) break
        const claimed = running.has(order.id) ? null : await claim(deps, order, signal)
        if (claimed !== null) begin(claimed, signal)
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

/** Null: somebody else was first, or it is no longer there. */
async function claim(deps: WorkOrdersDeps, { id }: WorkOrder, signal: AbortSignal): Promise<Order | null> {
  const { client, agentId, clock, claimed } = deps
  try {
    const claimedAtMs = clock.now()
    const { work_type, yaml_content, claim_timeout_seconds, attempt, retry_count } = await client.claimWorkOrder(
      { params: { id }, body: { agent_id: agentId } },
      { signal },
    )
    // A broker of the first version counts retries alone.
    const order = { id, work_type, yaml_content, claim_timeout_seconds, claimedAtMs, attempt: attempt ?? retry_count + 1 }
    await claimed.keep(order, signal)
    return order
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null
    throw error
  }
}

async function carryOutAndTell(deps: WorkOrdersDeps, order: Order, signal: AbortSignal): Promise<void> {
  const startedMs = deps.clock.monotonicMs()
  const result = await carryOutOrder(deps, order, deps.types, signal)
  const fields = { id: order.id, type: order.work_type, attempt: order.attempt, ms: Math.round(deps.clock.monotonicMs() - startedMs) }
  deps.log.info('work order carried out', { ...fields, success: result.success })
  deps.metrics.workOrders.inc({
    type: deps.types.includes(order.work_type) ? order.work_type : 'other',
    result: result.success ? 'success' : 'failure',
  })
  await complete(deps, order, result, signal)
  await deps.claimed.forget(order.id)
}

async function complete(deps: WorkOrdersDeps, order: Order, result: OrderResult, signal: AbortSignal): Promise<void> {
  const { success, message } = result
  const body = { success, message, attempt: order.attempt, ...('retryable' in result ? { retryable: result.retryable } : {}) }
  for (let failures = 0; ; failures++) {
    try {
      await deps.client.answer('completeWorkOrder', { params: { id: order.id }, body }, { signal })
      return
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof ApiError && heard.has(error.status)) return
      await deps.clock.sleep(backoffDelayMs({ baseMs: 1_000, maxMs: 60_000, jitter: 'equal' }, failures), signal)
    }
  }
}
