// Composition root of work orders: the loop that claims and executes them, and the loop that cleans up after them.
import type { Loop } from '@brokkr/runtime/loop.ts'
import type { OperationsConfig } from '../config-operations.ts'
import type { OperationsDeps } from '../start-operations.ts'
import { createClaimStore } from './claim-store.ts'
import { orderCleanUpLoop } from './clean-up-loop.ts'
import { workOrdersLoop } from './work-orders-loop.ts'

export function createWorkOrders(
  { clock, log, metrics, agentId, permit, reconcile, broker, paks, settings }: OperationsDeps,
  agent: OperationsConfig,
  namespace: string,
): { readonly workOrders: Loop; readonly cleanUp: Loop } {
  const { kube } = reconcile
  const claimed = createClaimStore({ kube }, namespace, agentId)
  const cleanUp = orderCleanUpLoop({
    kube,
    clock,
    log,
    claimed,
    afterMs: agent.work_order_cleanup_after * 1000,
    get settings() {
      return reconcile.settings
    },
  })
  const workOrders = workOrdersLoop({
    kube,
    clock,
    log,
    metrics,
    agentId,
    get settings() {
      return reconcile.settings
    },
    permit,
    everyMs: () => settings.view.agent.polling_interval * 1000,
    client: broker.client,
    sendOutput: async (orderId, body, signal) => {
      await broker.post(`/api/v1/work-orders/${orderId}/output`, { authorization: `Bearer ${paks.current}`, body, signal })
    },
    claimed,
    types: agent.work_order_types,
    concurrency: agent.work_order_concurrency,
    checkMs: agent.work_order_check_seconds * 1000,
    buildMs: agent.build_timeout * 1000,
  })
  return { workOrders, cleanUp }
}
