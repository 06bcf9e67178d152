// An agent that works on one stack and is killed at an await of its client: applies a revision, or removes the stack.
import { createSecretKey } from 'node:crypto'
import { loadKubeconfig, openKube } from '@brokkr/kube'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { crashProgram } from '@brokkr/testing/crash/crash-child.ts'
import { cacheManifest } from '../desired-state/cached-manifest.ts'
import { agentMetrics } from '../metrics.ts'
import type { ReconcileDeps } from '../reconcile/deps.ts'
import { VerifiedVersions } from '../reconcile/drift/verified-versions.ts'
import { MemberIndex } from '../reconcile/member-index.ts'
import { PruneApprovals } from '../reconcile/prune/prune-approvals.ts'
import { removeStack } from '../reconcile/prune/remove-stack.ts'
import { reconcileStack } from '../reconcile/reconcile-stack.ts'
import { StackGenerators } from '../reconcile/stack-generators.ts'
import { StackParents } from '../reconcile/stack-parents.ts'

export interface CrashInput {
  readonly kubeconfigPath: string
  readonly own: string
  readonly agentId: string
  readonly hashKey: string
  readonly stackId: string
  /** Null: the stack is to be removed. */
  readonly revision: { readonly rev: number; readonly objectId: string; readonly text: string } | null
  readonly settings: ReconcileDeps['settings']
}

await crashProgram(async (input: CrashInput, underCrash) => {
  const kube = underCrash(openKube(await loadKubeconfig({ path: input.kubeconfigPath, env: {} })), 'kube')
  const { own: namespace, agentId, stackId, revision, settings } = input
  const deps: ReconcileDeps = {
    kube,
    clock: underCrash(clock, 'clock'),
    metrics: agentMetrics(createMetrics()),
    parents: new StackParents({ kube, clock }, { namespace, agentId, tooling: 'brokkr/v0.0.0', savesManifests: true }),
    members: new MemberIndex(),
    verifiedVersions: new VerifiedVersions(),
    generators: new StackGenerators(() => Promise.resolve([])),
    approvals: new PruneApprovals(),
    agentId,
    hashKey: createSecretKey(input.hashKey, 'base64'),
    settings,
  }
  const signal = new AbortController().signal
  if (revision === null) return (await removeStack(deps, stackId, signal)).phase
  const { rev, objectId, text } = revision
  const object = cacheManifest({ id: objectId as never, sequenceId: rev, isDeletionMarker: false }, text)
  const task = { stackId, rev, drift: 'heal', object, text, driftCandidates: new Set<string>(), backedOff: new Set<string>() }
  return (await reconcileStack(deps, task, signal)).phase
})
