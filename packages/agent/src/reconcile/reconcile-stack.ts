// Brings one stack to its desired deployment object: checks the signature, skips an unchanged stack, builds the desired objects and
// runs one attempt. The parent, the members and the dry runs of small stacks are requested in parallel.
import { KubeError } from '@brokkr/kube'
import { type ApplyTask, isApplied } from './apply/apply-task.ts'
import { Attempt } from './apply/attempt.ts'
import { impersonateGenerator } from './apply/impersonate.ts'
import { prefetchDryRuns } from './apply/prefetch-dry-runs.ts'
import { prefetchMembers } from './apply/prefetch-members.ts'
import { isStackUnchanged, toVersionKey } from './apply/unchanged-check.ts'
import type { ReconcileDeps } from './deps.ts'
import { type Outcome, toProblemOutcome } from './outcome.ts'
import { buildDesired } from './plan/build-desired.ts'
import type { DesiredObject } from './plan/desired.ts'
import { maskText } from './plan/mask.ts'
import { checkSignature } from './plan/signature.ts'
import { toErrorProblem } from './problem.ts'
import type { StackParent, StackState } from './stack-parents.ts'

/** Throws only the signal's reason or an unexpected error. */
export async function reconcileStack(deps: ReconcileDeps, task: ApplyTask, signal: AbortSignal): Promise<Outcome> {
  const refusal = checkSignature(task.text, deps.settings.signatures)
  if (refusal) return toProblemOutcome(refusal)
  const prefetching = prefetchDryRuns(deps, task, signal)
  try {
    const prefetchedMembers = task.drift === 'off' ? () => null : prefetchMembers(deps, task.stackId, signal)
    const parent = await readParent(deps, task, signal)
    // With drift detection off, an applied object needs no request, unless its prune is still pending.
    const isUpToDate = parent.state !== null && parent.pruneBase === null && isApplied(parent.state, task)
    if (isUpToDate && (task.drift === 'off' || (await isStackUnchanged(deps, task, { parent, prefetchedMembers }, signal))))
      return toUnchangedOutcome(parent.state.event)
    deps.verifiedVersions.clearApplied(task.stackId)
    const prefetch = await prefetching
    const built = prefetch
      ? { ok: true as const, ...prefetch, generator: parent.generator ?? deps.generators.get(task.stackId) }
      : await buildDesired(deps, task, parent, signal)
    if (!built.ok) return toProblemOutcome(built.problem)
    const impersonation = impersonateGenerator(deps, built.generator)
    if (!impersonation.ok) return toProblemOutcome(impersonation.problem)
    const input = { ...built, parent, prefetchedMembers, prefetchedDryRuns: prefetch?.dryRuns ?? noDryRuns }
    const outcome = await new Attempt(impersonation.deps, task, input, signal).run().catch((error) => toErrorOutcome(error, signal))
    recordApplied(deps, task, built.desired, outcome)
    return maskOutcome(outcome, built.desired)
  } finally {
    // Also after an abort: no request of this attempt may overlap with the next attempt.
    await (await prefetching)?.ended
  }
}

async function readParent(deps: ReconcileDeps, task: ApplyTask, signal: AbortSignal): Promise<StackParent> {
  const parent = await deps.parents.read(task.stackId, signal)
  deps.members.set(task.stackId, parent.set.members)
  deps.members.watch(task.stackId, task.drift !== 'off')
  return parent
}

/** Remembers a complete apply, so that the next resync can skip the stack. A member beyond the desired objects still has to be pruned. */
function recordApplied(deps: ReconcileDeps, task: ApplyTask, desired: readonly DesiredObject[], outcome: Outcome): void {
  const isComplete = deps.members.listMembers(task.stackId).length === desired.length
  if (outcome.phase === 'applied' && isComplete && (outcome.drift?.isHealed ?? true))
    deps.verifiedVersions.recordApplied(task.stackId, toVersionKey(task), toHashes(desired))
}

function toErrorOutcome(error: unknown, signal: AbortSignal): Outcome {
  signal.throwIfAborted()
  if (!(error instanceof KubeError)) throw error
  return toProblemOutcome(toErrorProblem(error))
}

/** Error messages of the API server can quote the content that was sent. */
function maskOutcome(outcome: Outcome, desired: readonly DesiredObject[]): Outcome {
  if (!('problem' in outcome)) return outcome
  const objects = desired.map(({ uncut }) => uncut)
  return { ...outcome, problem: { ...outcome.problem, message: maskText(outcome.problem.message, objects) } }
}

const noDryRuns = () => undefined

/** Hashes are kept for dry-run prefetch only; a larger stack has enough parallel requests without it. */
const hashedObjectsMax = 8

const toHashes = (desired: readonly DesiredObject[]): ReadonlyMap<string, string> =>
  new Map(desired.length > hashedObjectsMax ? [] : desired.map(({ key, hash }) => [key, hash]))

const toUnchangedOutcome = (event: StackState['event']): Outcome => ({
  phase: 'applied',
  objects: [],
  event,
  isNew: false,
  changes: [],
  drift: null,
  held: null,
  warnings: [],
})
