// Brings one stack to a revision: what the manifest wants, then one attempt on the cluster. A crash between any two steps of it
// leaves the inventory naming too much, never too little.
import { KubeError } from '@brokkr/kube/api-error.ts'
import { actingFor } from './acting-for.ts'
import { type ApplyTask, isInForce } from './apply-task.ts'
import { Attempt, type Settled } from './attempt.ts'
import type { ReconcileDeps } from './deps.ts'
import type { DesiredObject } from './desired.ts'
import { listEarly } from './early-list.ts'
import { type Ahead, tryAhead } from './early-trials.ts'
import { maskText } from './mask.ts'
import { type Outcome, stopped } from './outcome.ts'
import { problemOfError } from './problem.ts'
import { refuseUnsigned } from './signature.ts'
import type { StackState } from './stack-parents.ts'
import { isUntouched, settledAs } from './untouched.ts'
import { wantedOf } from './wanted.ts'

/** Throws only the signal's reason, or what nobody expected. */
export async function applyStack(deps: ReconcileDeps, task: ApplyTask, signal: AbortSignal): Promise<Outcome> {
  const unsigned = refuseUnsigned(task.text, deps.settings.signatures)
  if (unsigned) return stopped(unsigned)
  const trying = tryAhead(deps, task, signal)
  try {
    return await carryOut(deps, task, trying, signal)
  } finally {
    // Also where something newer came: one attempt at a time, and nothing of it is left under way.
    await (await trying)?.ended
  }
}

async function carryOut(deps: ReconcileDeps, task: ApplyTask, trying: Promise<Ahead | null>, signal: AbortSignal): Promise<Outcome> {
  const early = task.drift === 'off' ? () => null : listEarly(deps, task.stackId, signal)
  const parent = await deps.parents.read(task.stackId, signal)
  deps.members.set(task.stackId, parent.set.members)
  deps.members.watch(task.stackId, task.drift !== 'off')
  // Whoever wants no look at drift wants nothing done to a revision that is in force, unless a prune of it still waits.
  const isDone = parent.state !== null && parent.basis === null && isInForce(parent.state, task)
  if (isDone && (task.drift === 'off' || (await isUntouched(deps, task, { parent, early }, signal)))) return unchanged(parent.state.event)
  deps.clean.unsettle(task.stackId)
  const ahead = await trying
  const tenant = parent.tenant ?? deps.tenants.known(task.stackId)
  const wanted = ahead ? { ok: true as const, ...ahead, tenant } : await wantedOf(deps, task, parent, signal)
  if (!wanted.ok) return stopped(wanted.problem)
  const acting = actingFor(deps, wanted.tenant)
  if (!acting.ok) return stopped(acting.problem)
  const outcome = await attempt(acting.deps, task, { parent, early, trials: ahead?.trials ?? untried, ...wanted }, signal)
  // A member beyond what is wanted still has to go: held back, or of a kind that could not be listed.
  const isWhole = deps.members.membersOf(task.stackId).length === wanted.desired.length
  if (outcome.phase === 'applied' && isWhole && (outcome.drift?.isHealed ?? true))
    deps.clean.settle(task.stackId, settledAs(task), hashesOf(wanted.desired))
  return outcome
}

const untried = () => undefined

/** Larger stacks have enough to do at once, and it would be a lot to remember. */
const rememberedMax = 8

const hashesOf = (desired: readonly DesiredObject[]): ReadonlyMap<string, string> =>
  new Map(desired.length > rememberedMax ? [] : desired.map(({ key, hash }) => [key, hash]))

/** What goes wrong on the way may be told in words that quote what was sent. */
async function attempt(deps: ReconcileDeps, task: ApplyTask, settled: Settled, signal: AbortSignal): Promise<Outcome> {
  const outcome = await new Attempt(deps, task, settled, signal).run().catch((error: unknown) => {
    signal.throwIfAborted()
    if (!(error instanceof KubeError)) throw error
    return stopped(problemOfError(error))
  })
  if (!('problem' in outcome)) return outcome
  const { problem } = outcome
  const objects = settled.desired.map(({ uncut }) => uncut)
  return { ...outcome, problem: { ...problem, message: maskText(problem.message, objects) } }
}

const unchanged = (event: StackState['event']): Outcome => ({
  phase: 'applied',
  objects: [],
  event,
  isNew: false,
  changes: [],
  drift: null,
  held: null,
  warnings: [],
})
