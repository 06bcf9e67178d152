// The agent's subsystems after it knows its cluster and its identity: create, connect, start. The lifecycle stops them in reverse
// order: first no change arrives, last the broker receives the remaining reports.
import { type Kube } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { toError } from '@brokkr/runtime/errors.ts'
import type { Lifecycle } from '@brokkr/runtime/lifecycle.ts'
import { type Log } from '@brokkr/runtime/logging/log.ts'
import { AgentLoops } from './agent-loops.ts'
import { retryUntilAvailable } from './cluster.ts'
import { createBrokerSync } from './connection/broker-sync.ts'
import { toSyncOptions } from './connection/sync-options.ts'
import { createStateSaver, loadSyncState } from './desired-state/open-sync-state.ts'
import { registrationsLoop } from './identity/registrations-loop.ts'
import type { AgentSession } from './identity/start-session.ts'
import type { LiveSettings } from './live-settings.ts'
import type { AgentMetrics } from './metrics.ts'
import { affectsDesiredState } from './pace-settings.ts'
import { createReconcile } from './reconcile/create-reconcile.ts'
import { createReconcileDeps } from './reconcile/create-reconcile-deps.ts'
import { approvalsLoop } from './reconcile/prune/approvals-loop.ts'
import { refreshMetrics } from './refresh-metrics.ts'
import type { AgentConditions } from './reporting/agent-conditions.ts'
import { createReporting } from './reporting/create-reporting.ts'
import type { HealthSources } from './reporting/health-page.ts'
import { Outbox } from './reporting/outbox.ts'
import { startOperations } from './start-operations.ts'

export interface WorkDeps extends AgentSession {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: AgentMetrics
  readonly onWaiting: (why: string) => void
  readonly lifecycle: Lifecycle
  readonly kube: Kube
  readonly conditions: AgentConditions
  readonly settings: LiveSettings
}
export interface Work extends HealthSources {
  readonly refreshMetrics: () => void
}

const approvalsMs = 300_000
const registrationsMs = 300_000

export async function startWork(deps: WorkDeps, namespace: string): Promise<Work> {
  const { clock, log, metrics, lifecycle, agentId, settings, broker } = deps
  const { agent } = settings.view
  const { client } = broker
  const loops = new AgentLoops(deps)
  const outbox = new Outbox({ metrics }, { count: agent.event_spool, bytes: agent.event_spool_bytes })
  const reconcileDeps = createReconcileDeps(deps, namespace)
  const readParents = () => retryUntilAvailable(deps, () => reconcileDeps.parents.all(lifecycle.signal), lifecycle.signal)
  const state = await loadSyncState({ ...deps, outbox, readParents }, agent.state_dir)
  const saver = createStateSaver({ ...deps, outbox }, state, agent.state_dir)
  const sync = createBrokerSync({ session: deps, clock, log, metrics }, toSyncOptions(settings.view), state)
  const reconcile = createReconcile({ ...deps, reconcile: reconcileDeps, state, outbox, loops })
  const { controller } = reconcile
  const reporting = createReporting({ ...deps, reconcile: reconcileDeps, controller, drift: reconcile.drift, outbox, saver, sync, loops })
  const registrations = registrationsLoop({ client, log, generatorIds: agent.generator_ids, everyMs: registrationsMs })
  const approvals = approvalsLoop({
    client,
    agentId,
    log,
    approvals: reconcileDeps.approvals,
    controller,
    state,
    sync,
    everyMs: approvalsMs,
  })

  deps.onPermit(() => controller.permitChanged())
  deps.paks.onChange(() => sync.wake())
  settings.onChange((paths) => reconcile.settingsChanged(affectsDesiredState(paths)))

  await reconcile.load()
  reporting.start()
  // Reconciles the restored state at once, also while the broker is unreachable.
  reconcile.start()
  const startSync = () => {
    loops.start(approvals, { refreshedBy: 'agent' })
    loops.start(registrations, { immediately: true })
    startOperations({ ...deps, reconcile: reconcileDeps, state, loops }, agent, namespace)
    sync.start({
      onReconcile: (stackId) => controller.reconcile(stackId),
      onVerified: (snapshot) => controller.applySnapshot(snapshot),
      onSession: (session, isStateReplaced) => {
        reporting.beginSession(session, isStateReplaced)
        loops.refreshAll()
      },
      onRefresh: (resource, spreadMs) => loops.refresh(resource, spreadMs),
      onChanged: saver.changed,
    })
    lifecycle.onClose('sync', () => sync.stop())
  }
  deps.signedIn
    .then(startSync)
    .catch((error: unknown) => lifecycle.signal.aborted || log.error('broker sync not started', { error: toError(error) }))
  return {
    transport: () => sync.transport,
    refusedGenerators: () => registrations.refused,
    refreshMetrics: () => refreshMetrics(metrics, { outbox, reconcile: reconcileDeps, state, clock }),
  }
}
