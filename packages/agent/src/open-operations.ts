// What the agent does on request, opened together: work orders, diagnostics, webhooks, telemetry. Composition only. None of it is
// in the way of the stacks: each has a loop of its own.
import { isIP } from 'node:net'
import type { AgentId } from '@brokkr/contract/wire.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import { allowPrivateNetworks } from '@brokkr/runtime/address.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText, Terminal } from '@brokkr/runtime/errors.ts'
import type { Lifecycle } from '@brokkr/runtime/lifecycle.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { Loop, RunningLoop } from '@brokkr/runtime/loop.ts'
import { createOutbound } from '@brokkr/runtime/outbound.ts'
import type { BrokerHttp } from './broker-http.ts'
import type { OperationsConfig } from './config-operations.ts'
import type { WantedMap } from './follow/wanted-map.ts'
import type { Keys } from './keys.ts'
import type { LiveSettings } from './live-settings.ts'
import { diagnosticsLoop } from './loops/diagnostics.ts'
import { orderCleanUpLoop } from './loops/order-clean-up.ts'
import { webhooksLoop } from './loops/webhooks.ts'
import { workOrdersLoop } from './loops/work-orders.ts'
import type { AgentMetrics } from './metrics.ts'
import { openTelemetry } from './open-telemetry.ts'
import { namespacesOf } from './policy.ts'
import type { ReconcileDeps } from './reconcile/deps.ts'
import { version } from './version.ts'
import { claimedOrders } from './work-orders/claimed.ts'
import type { WritePermit } from './write-permit.ts'

export interface OperationsDeps {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: AgentMetrics
  readonly lifecycle: Lifecycle
  readonly broker: BrokerHttp
  readonly keys: Keys
  readonly agentId: AgentId
  readonly kube: Kube
  readonly permit: WritePermit
  readonly reconcile: ReconcileDeps
  readonly map: WantedMap
  readonly settings: LiveSettings
  readonly open: (loop: Loop) => RunningLoop
}

/** By what the broker calls them when it says `look`. */
export function openOperations(given: OperationsDeps, agent: OperationsConfig, namespace: string): Record<string, readonly RunningLoop[]> {
  const deps = { ...given, open: (loop: Loop) => given.open(calm(given.log, whileWanted(given.permit, loop))) }
  openTelemetry(deps)
  return {
    work_orders: [openOrders(deps, agent, namespace)],
    diagnostics: [openDiagnostics(deps, agent)],
    webhooks: agent.webhook_delivery ? [openWebhooks(deps, agent)] : [],
  }
}

/** An agent that is not ACTIVE, or may not speak for its cluster, claims nothing. Whoever only observes may still look and deliver. */
const whileWanted = (permit: Pick<WritePermit, 'refusal'>, loop: Loop): Loop => ({
  ...loop,
  run: (signal) => (permit.refusal === null || permit.refusal === 'observe' ? loop.run(signal) : Promise.resolve()),
})

/** A broker that is away fails every run; one line tells it, and the next good run makes it worth another. */
function calm(log: Log, loop: Loop): Loop {
  let hasFailed = false
  const run: Loop['run'] = async (signal) => {
    try {
      const counts = await loop.run(signal)
      hasFailed = false
      return counts
    } catch (error) {
      signal.throwIfAborted()
      if (!hasFailed) log.warn('task waits for the broker or the API server', { task: loop.name, why: errorText(error) })
      hasFailed = true
      return {}
    }
  }
  return { ...loop, run }
}

function openOrders(deps: OperationsDeps, agent: OperationsConfig, namespace: string): RunningLoop {
  const { clock, log, metrics, agentId, permit, reconcile, broker } = deps
  const { kube } = reconcile
  const namespaces = () => namespacesOf(reconcile.settings.policy)
  deps.open(orderCleanUpLoop({ kube, clock, agentId, afterMs: agent.work_order_cleanup_after * 1000, namespaces }))
  return deps.open(
    workOrdersLoop({
      kube,
      clock,
      log,
      metrics,
      agentId,
      get settings() {
        return reconcile.settings
      },
      permit,
      everyMs: () => deps.settings.view.agent.polling_interval * 1000,
      client: broker.client,
      sendOutput: async (orderId, body, signal) => {
        await broker.post(`/api/v1/work-orders/${orderId}/output`, { authorization: `Bearer ${deps.keys.current}`, body, signal })
      },
      claimed: claimedOrders({ kube }, namespace, agentId),
      types: agent.work_order_types,
      concurrency: agent.work_order_concurrency,
      checkMs: agent.work_order_check_seconds * 1000,
      buildMs: agent.build_timeout * 1000,
    }),
  )
}

function openDiagnostics(
  { open, kube, clock, log, agentId, broker, reconcile, map }: OperationsDeps,
  agent: OperationsConfig,
): RunningLoop {
  const subject = async (objectId: string, signal: AbortSignal) => {
    const stack = [...map.levels.wanted.values()].find(({ object }) => object?.id === objectId)
    if (stack === undefined) return null
    return { stackId: stack.stackId, members: (await reconcile.parents.read(stack.stackId, signal)).set.members }
  }
  return open(
    diagnosticsLoop({
      kube,
      clock,
      log,
      agentId,
      get policy() {
        return reconcile.settings.policy
      },
      subject,
      client: broker.client,
      everyMs: agent.diagnostics_interval * 1000,
    }),
  )
}

function openWebhooks({ open, kube, clock, log, agentId, broker, lifecycle }: OperationsDeps, agent: OperationsConfig): RunningLoop {
  const host = new URL(kube.server).hostname.replace(/^\[|\]$/g, '')
  const own = isIP(host) === 4 ? [`${host}/32`] : isIP(host) === 6 ? [`${host}/128`] : []
  // Private networks are why an agent delivers at all.
  const allow = { ...allowPrivateNetworks, denied: [...agent.webhook_denied_cidrs, ...own] }
  const outbound = createOutbound({}, { allow, userAgent: `brokkr-agent/${version}`, schemes: ['https:', 'http:'] })
  lifecycle.onClose('webhook connections', () => outbound.close())
  const check = (url: string) => {
    if (new URL(url).hostname === host)
      throw new Terminal('the receiver is the API server, which may not be reached this way', { code: 'address_refused' })
  }
  return open(webhooksLoop({ client: broker.client, agentId, outbound, check, clock, log, everyMs: agent.webhook_interval * 1000 }))
}
