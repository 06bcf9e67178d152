// Composition root of reporting: status and events, heartbeat, health, and the resource tree.
import type { AgentLoops } from '../agent-loops.ts'
import type { BrokerSync } from '../connection/broker-sync.ts'
import { toAgentFacts } from '../connection/sync-options.ts'
import type { StateSaver } from '../desired-state/state-saver.ts'
import { listAllowedNamespaces } from '../policy/policy.ts'
import type { ReconcileDeps } from '../reconcile/deps.ts'
import type { DriftWatch } from '../reconcile/drift/drift-watch.ts'
import type { StackController } from '../reconcile/stack-controller.ts'
import type { WorkDeps } from '../start-subsystems.ts'
import { version } from '../version.ts'
import { type HealthLoop, healthLoop } from './health/health-loop.ts'
import { heartbeatLoop } from './heartbeat-loop.ts'
import type { Outbox } from './outbox.ts'
import { OwnedObjects } from './resource-tree/owned-objects.ts'
import { type ResourceTreeLoop, resourceTreeLoop } from './resource-tree/resource-tree-loop.ts'
import { type StatusLoop, statusLoop } from './status-loop.ts'

export interface ReportingDeps extends WorkDeps {
  readonly reconcile: ReconcileDeps
  readonly controller: StackController
  readonly drift: DriftWatch
  readonly outbox: Outbox
  readonly saver: StateSaver
  readonly sync: BrokerSync
  readonly loops: AgentLoops
}
export interface Reporting {
  start(): void
  /** A stream began: reports are numbered within its session, and the broker may have lost earlier ones. */
  beginSession(session: number, isStateReplaced: boolean): void
}

const statusMs = 1_000
const heartbeatMaxSeconds = 30
const finalReportMs = 3_000

export function createReporting(deps: ReportingDeps): Reporting {
  const { clock, outbox, controller, drift, lifecycle, loops, saver } = deps
  const { agent } = deps.settings.view
  const { client } = deps.broker
  const health = createHealth(deps)
  const namespaces = () => listAllowedNamespaces(deps.reconcile.settings.policy)
  const ownedObjects = new OwnedObjects({ kube: deps.kube, clock, log: deps.log, namespaces })
  const tree = createTree(deps, health, ownedObjects)
  const status = statusLoop({ ...deps, client, everyMs: statusMs, digestMs: agent.digest_interval * 1000 })
  const everyMs = () => Math.min(agent.polling_interval, heartbeatMaxSeconds) * 1000
  const heartbeat = heartbeatLoop({ ...deps, client, version, everyMs, facts: () => toAgentFacts(deps.settings.view) })
  const healthTimer = new WakeTimer(clock, () => health.pauseMs())

  const touch = (stackId: Parameters<HealthLoop['touch']>[0]) => {
    health.touch(stackId)
    healthTimer.schedule()
    tree.touch(stackId)
  }
  controller.onAttemptEnd(touch)
  drift.onObserved((stackId) => touch(stackId as Parameters<typeof touch>[0]))
  health.onUnwellChange((stackId) => tree.touch(stackId))
  ownedObjects.onChange(() => tree.touchOwners())
  return {
    start: () => {
      healthTimer.connect(loops.start(health))
      lifecycle.onClose('health timer', () => healthTimer.cancel())
      lifecycle.onClose('state', () => saver.stop())
      startStatus(deps, status)
      loops.start(heartbeat, { immediately: true, refreshedBy: 'agent' })
      lifecycle.onClose('owned objects', () => ownedObjects.stop())
      loops.start(tree)
    },
    beginSession: (session, isStateReplaced) => {
      status.begin(session)
      tree.resendAll()
      if (isStateReplaced) outbox.resendAll()
    },
  }
}

function createHealth({ kube, agentId, clock, log, controller, drift, reconcile, broker, outbox, settings }: ReportingDeps): HealthLoop {
  const { agent } = settings.view
  return healthLoop({
    kube,
    agentId,
    clock,
    log,
    running: () => controller.listApplied(),
    watched: (member) => drift.findObserved(member),
    policy: () => reconcile.settings.policy,
    send: async (reports, signal) => {
      const body = { deployment_objects: [...reports] }
      await broker.client.updateHealthStatus({ params: { id: agentId }, body }, { signal })
    },
    event: (event) => outbox.event(event),
    everyMs: () => agent.deployment_health_interval * 1000,
    isEnabled: () => agent.deployment_health_enabled,
  })
}

const createTree = (
  { clock, controller, broker, agentId, paks, settings }: ReportingDeps,
  health: HealthLoop,
  ownedObjects: OwnedObjects,
): ResourceTreeLoop =>
  resourceTreeLoop({
    clock,
    running: () => controller.listApplied(),
    ownedObjects,
    unwell: (stackId) => health.unwell(stackId),
    send: async (body, signal) => {
      await broker.post(`/api/v1/agents/${agentId}/inventory`, { authorization: `Bearer ${paks.current}`, body, signal })
    },
    everyMs: () => settings.view.agent.inventory_interval * 1000,
  })

/** Sends urgent reports after a short pause, and the remaining ones once more when the agent stops. */
function startStatus({ clock, lifecycle, loops, outbox, saver }: ReportingDeps, status: StatusLoop): void {
  const running = loops.startUnowned(status)
  const timer = new WakeTimer(clock, () => status.pauseMs())
  timer.connect(running)
  outbox.onNews((isUrgent) => {
    if (!isUrgent) return running.retime()
    saver.changed()
    timer.schedule()
  })
  lifecycle.onClose('status', async () => {
    timer.cancel()
    await running.stop()
    if (!outbox.isEmpty) await status.run(AbortSignal.timeout(finalReportMs))
  })
}

/** Wakes a loop once after a pause, however often it is scheduled in between. */
class WakeTimer {
  readonly #clock: ReportingDeps['clock']
  readonly #pauseMs: () => number
  #loop: { wake(): void } | null = null
  #timer: { cancel(): void } | null = null

  constructor(clock: ReportingDeps['clock'], pauseMs: () => number) {
    this.#clock = clock
    this.#pauseMs = pauseMs
  }

  connect(loop: { wake(): void }): void {
    this.#loop = loop
  }

  schedule(): void {
    this.#timer ??= this.#clock.setTimer(this.#pauseMs(), () => {
      this.#timer = null
      this.#loop?.wake()
    })
  }

  cancel(): void {
    this.#timer?.cancel()
  }
}
