// Dependencies that all reconcile steps share: the client whose writes need a permit, the known state of the cluster, and the settings.
import { reconcileSettings } from '../config-reconcile.ts'
import { withWritePermit } from '../policy/write-permit.ts'
import type { WorkDeps } from '../start-subsystems.ts'
import { version } from '../version.ts'
import type { ReconcileDeps } from './deps.ts'
import { VerifiedVersions } from './drift/verified-versions.ts'
import { MemberIndex } from './member-index.ts'
import { PruneApprovals } from './prune/prune-approvals.ts'
import { StackGenerators } from './stack-generators.ts'
import { StackParents } from './stack-parents.ts'

export function createReconcileDeps(deps: WorkDeps, namespace: string): ReconcileDeps {
  const { clock, metrics, permit, agentId, hashKey, settings } = deps
  const { agent } = settings.view
  // Checks the permit at the moment a write leaves.
  const kube = withWritePermit(deps.kube, permit)
  const parents = new StackParents(
    { kube, clock },
    { namespace, agentId, tooling: `brokkr/v${version}`, savesManifests: agent.save_manifests },
  )
  const generators = new StackGenerators(async (signal) => {
    const response = await deps.broker.client.call('getAssociatedStacks', { params: { id: agentId } }, { signal })
    return response.body
  })
  let current = reconcileSettings(agent, namespace)
  settings.onChange(() => {
    current = reconcileSettings(agent, namespace)
  })
  return {
    kube,
    clock,
    metrics,
    parents,
    generators,
    members: new MemberIndex(),
    verifiedVersions: new VerifiedVersions(),
    approvals: new PruneApprovals(),
    agentId,
    hashKey,
    get settings() {
      return current
    },
  }
}
