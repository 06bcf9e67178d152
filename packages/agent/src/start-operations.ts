// Composition root of the work that the broker requests: work orders, diagnostics, plans, webhook deliveries, telemetry. Each has its own
// loop, so none of it delays the stacks.
import type { AgentId } from '@brokkr/contract/wire.ts'
import { type Kube } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Lifecycle } from '@brokkr/runtime/lifecycle.ts'
import { type Log } from '@brokkr/runtime/logging/log.ts'
import type { Loop, RunningLoop } from '@brokkr/runtime/loop.ts'
import type { AgentLoops } from './agent-loops.ts'
import type { OperationsConfig } from './config-operations.ts'
import type { BrokerHttp } from './connection/broker-http.ts'
import type { SyncState } from './desired-state/sync-state.ts'
import { createDiagnostics } from './diagnostics/create-diagnostics.ts'
import type { AgentPaks } from './identity/paks.ts'
import type { LiveSettings } from './live-settings.ts'
import type { AgentMetrics } from './metrics.ts'
import { createPlans } from './plans/create-plans.ts'
import type { WritePermit } from './policy/write-permit.ts'
import type { ReconcileDeps } from './reconcile/deps.ts'
import { startTelemetry } from './telemetry/start-telemetry.ts'
import { createDeliveries } from './webhooks/create-deliveries.ts'
import { createWorkOrders } from './work-orders/create-work-orders.ts'

export interface OperationsDeps {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: AgentMetrics
  readonly lifecycle: Lifecycle
  readonly broker: BrokerHttp
  readonly paks: AgentPaks
  readonly agentId: AgentId
  readonly kube: Kube
  readonly permit: WritePermit
  readonly reconcile: ReconcileDeps
  readonly state: SyncState
  readonly settings: LiveSettings
  readonly loops: AgentLoops
}

export function startOperations(deps: OperationsDeps, agent: OperationsConfig, namespace: string): void {
  const start = (loop: Loop, refreshedBy?: string): RunningLoop =>
    deps.loops.start(logFirstFailure(deps.log, whilePermitted(deps.permit, loop)), refreshedBy === undefined ? {} : { refreshedBy })
  startTelemetry(deps, start)
  const { workOrders, cleanUp } = createWorkOrders(deps, agent, namespace)
  start(cleanUp)
  start(workOrders, 'work_orders')
  start(createDiagnostics(deps, agent), 'diagnostics')
  start(createPlans(deps, agent), 'plans')
  if (agent.webhook_delivery) start(createDeliveries(deps, agent), 'webhooks')
}

/** Skips the run of a loop while the agent is not ACTIVE or not the Lease holder. An agent with preset observe still runs it. */
const whilePermitted = (permit: Pick<WritePermit, 'refusal'>, loop: Loop): Loop => ({
  ...loop,
  run: (signal) => (permit.refusal === null || permit.refusal === 'observe' ? loop.run(signal) : Promise.resolve()),
})

/** An unreachable broker fails every run: logs the first failure and again after a successful run. */
function logFirstFailure(log: Log, loop: Loop): Loop {
  let hasFailed = false
  const run: Loop['run'] = async (signal) => {
    try {
      const counts = await loop.run(signal)
      hasFailed = false
      return counts
    } catch (error) {
      signal.throwIfAborted()
      if (!hasFailed) log.warn('task failed', { task: loop.name, why: errorText(error) })
      hasFailed = true
      return {}
    }
  }
  return { ...loop, run }
}
