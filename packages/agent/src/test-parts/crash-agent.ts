// An agent that works on one stack and is killed at an await of its client: applies a revision, or removes the stack.
import { createSecretKey } from 'node:crypto'
import { openKube } from '@brokkr/kube/client.ts'
import { loadKubeconfig } from '@brokkr/kube/kubeconfig.ts'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { createMetrics } from '@brokkr/runtime/metrics.ts'
import { crashProgram } from '@brokkr/testing/crash-child.ts'
import { holdObject } from '../follow/held-object.ts'
import { agentMetrics } from '../metrics.ts'
import { CleanMarks } from '../reconcile/clean-marks.ts'
import type { ReconcileDeps } from '../reconcile/deps.ts'
import { applyStack } from '../reconcile/execute.ts'
import { MemberIndex } from '../reconcile/member-index.ts'
import { PruneApprovals } from '../reconcile/prune-approvals.ts'
import { removeStack } from '../reconcile/remove.ts'
import { StackParents } from '../reconcile/stack-parents.ts'
import { Tenants } from '../reconcile/tenants.ts'

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
    clean: new CleanMarks(),
    tenants: new Tenants(() => Promise.resolve([])),
    approvals: new PruneApprovals(),
    agentId,
    hashKey: createSecretKey(input.hashKey, 'base64'),
    settings,
  }
  const signal = new AbortController().signal
  if (revision === null) return (await removeStack(deps, stackId, signal)).phase
  const { rev, objectId, text } = revision
  const object = holdObject({ id: objectId as never, sequenceId: rev, isMarker: false }, text)
  const task = { stackId, rev, drift: 'heal', object, text, suspects: new Set<string>(), resting: new Set<string>() }
  return (await applyStack(deps, task, signal)).phase
})
