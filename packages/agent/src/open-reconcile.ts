// What reconcile works with, put together: the client whose writes are judged, what is known of the cluster, and the settings as
// they are at each moment.
import type { StackId } from '@brokkr/contract/wire.ts'
import { reconcileSettings } from './config-reconcile.ts'
import type { Deployments } from './loops/deployments.ts'
import { CleanMarks } from './reconcile/clean-marks.ts'
import type { ReconcileDeps } from './reconcile/deps.ts'
import { MemberIndex } from './reconcile/member-index.ts'
import { PruneApprovals } from './reconcile/prune-approvals.ts'
import { StackParents } from './reconcile/stack-parents.ts'
import { Tenants } from './reconcile/tenants.ts'
import { version } from './version.ts'
import type { WorkDeps } from './work.ts'
import { permittedKube } from './write-permit.ts'

export function openReconcile(deps: WorkDeps, namespace: string): ReconcileDeps {
  const { clock, metrics, permit, agentId, hashKey, settings } = deps
  const { agent } = settings.view
  // Whatever changes the cluster goes through the permit, at the moment it leaves.
  const kube = permittedKube(deps.kube, permit)
  const parents = new StackParents(
    { kube, clock },
    { namespace, agentId, tooling: `brokkr/v${version}`, savesManifests: agent.save_manifests },
  )
  const tenants = new Tenants(async (stop) => {
    const answer = await deps.broker.client.answer('getAssociatedStacks', { params: { id: agentId } }, { signal: stop })
    return answer.body
  })
  const known = { members: new MemberIndex(), clean: new CleanMarks(), approvals: new PruneApprovals() }
  let current = reconcileSettings(agent, namespace)
  settings.onChange(() => {
    current = reconcileSettings(agent, namespace)
  })
  return {
    kube,
    clock,
    metrics,
    parents,
    tenants,
    ...known,
    agentId,
    hashKey,
    get settings() {
      return current
    },
  }
}

/** What stands in the cluster already. */
export async function loadInventories(
  { parents, members, tenants }: ReconcileDeps,
  deployments: Deployments,
  signal: AbortSignal,
): Promise<void> {
  for (const { stackId, parent } of await parents.all(signal)) {
    members.set(stackId, parent.set.members)
    if (parent.tenant) tenants.found(stackId, parent.tenant)
    if (parent.state) deployments.found(stackId as StackId, parent.state)
  }
}
