// Composition root of reconcile: the stack controller, the drift watch, and the loops that scan all stacks.
import type { StackId } from '@brokkr/contract/wire.ts'
import type { AgentLoops } from '../agent-loops.ts'
import { retryUntilAvailable } from '../cluster.ts'
import type { SyncState } from '../desired-state/sync-state.ts'
import type { AgentIdentityStore } from '../identity/agent-identity.ts'
import { listAllowedNamespaces } from '../policy/policy.ts'
import type { Outbox } from '../reporting/outbox.ts'
import type { WorkDeps } from '../start-subsystems.ts'
import type { ReconcileDeps } from './deps.ts'
import { DriftWatch } from './drift/drift-watch.ts'
import { resyncLoop, verifyLoop } from './drift/scan-loops.ts'
import type { EpochRecord } from './prune/snapshot-removals.ts'
import { StackController } from './stack-controller.ts'

export interface Reconcile {
  readonly controller: StackController
  readonly drift: DriftWatch
  /** Reads the inventories of all stacks from the cluster. */
  load(): Promise<void>
  start(): void
  /** `affectsDesiredState`: an applied stack may be wrong under the new settings. */
  settingsChanged(affectsDesiredState: boolean): void
}

export function createReconcile(
  deps: WorkDeps & { readonly reconcile: ReconcileDeps; readonly state: SyncState; readonly outbox: Outbox; readonly loops: AgentLoops },
): Reconcile {
  const { kube, clock, log, agentId, reconcile, lifecycle, loops } = deps
  const { agent } = deps.settings.view
  const { members, verifiedVersions } = reconcile
  const namespaces = () => listAllowedNamespaces(reconcile.settings.policy)
  const drift = new DriftWatch({ kube, clock, log, members, verifiedVersions, namespaces }, agentId)
  const controller = new StackController(
    { ...deps, drift, epochRecord: toEpochRecord(deps.identity), conflictWindowMs: () => agent.drift_fight_seconds * 1000 },
    {
      concurrency: () => agent.stack_concurrency,
      attemptMs: () => agent.attempt_seconds * 1000,
      retryMaxMs: () => agent.retry_max_seconds * 1000,
    },
  )
  drift.onCandidate((stackId, key) => controller.addDriftCandidate(stackId as StackId, key))
  return {
    controller,
    drift,
    load: () => retryUntilAvailable(deps, () => loadInventories(deps, controller), lifecycle.signal),
    start: () => {
      drift.start()
      lifecycle.onClose('drift', () => drift.stop())
      controller.start()
      lifecycle.onClose('controller', () => controller.stop())
      loops.start(resyncLoop({ controller, drift, everyMs: () => agent.resync_interval * 1000 }))
      loops.start(verifyLoop({ controller, everyMs: () => agent.verify_interval * 1000 }))
      controller.reconcileAll()
    },
    settingsChanged: (affectsDesiredState) => {
      controller.resize()
      if (!affectsDesiredState) return
      drift.refresh()
      controller.settingsChanged()
    },
  }
}

async function loadInventories(
  { reconcile, log, lifecycle }: WorkDeps & { readonly reconcile: ReconcileDeps },
  controller: StackController,
): Promise<void> {
  const { parents, members, generators } = reconcile
  for (const { stackId, parent } of await parents.all(lifecycle.signal)) {
    members.set(stackId, parent.set.members)
    if (parent.generator) generators.set(stackId, parent.generator)
    if (parent.state) controller.setApplied(stackId as StackId, parent.state)
  }
  for (const { name, error } of parents.unreadable) log.warn('parent secret unreadable', { secret: name, error })
}

const toEpochRecord = (identity: AgentIdentityStore): EpochRecord => ({
  get orphans() {
    return new Set(identity.facts?.orphans)
  },
  save: ({ orphans, ...origin }) => identity.save({ orphans: [...orphans].toSorted(), ...origin }),
})
