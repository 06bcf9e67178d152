// Brings one stack to a revision: what the manifest wants, then one attempt on the cluster. A crash between any two steps of it
// leaves the inventory naming too much, never too little.
import { hasReason, KubeError } from '@brokkr/kube/api-error.ts'
import { failureOf } from '@brokkr/kube/failure.ts'
import type { Kind, KubeObject } from '@brokkr/kube/object.ts'
import { grantsNeeded } from '../policy.ts'
import { actingFor } from './acting-for.ts'
import { type ApplyTask, isInForce } from './apply-task.ts'
import { Attempt, type Settled } from './attempt.ts'
import type { ReconcileDeps } from './deps.ts'
import { type Desired, desiredObjects, placedObjects, readObjects, type Scope } from './desired.ts'
import { listEarly } from './early-list.ts'
import { maskText } from './mask.ts'
import { type Outcome, stopped } from './outcome.ts'
import { problemOfError } from './problem.ts'
import { refuseUnsigned } from './signature.ts'
import type { StackParent, StackState } from './stack-parents.ts'
import { grantsOf, needsTenant, type Tenant } from './tenants.ts'
import { isUntouched, settledAs } from './untouched.ts'

/** Throws only the signal's reason, or what nobody expected. */
export async function applyStack(deps: ReconcileDeps, task: ApplyTask, signal: AbortSignal): Promise<Outcome> {
  const unsigned = refuseUnsigned(task.text, deps.settings.signatures)
  if (unsigned) return stopped(unsigned)
  const early = task.drift === 'off' ? () => null : listEarly(deps, task.stackId, signal)
  const parent = await deps.parents.read(task.stackId, signal)
  deps.members.set(task.stackId, parent.set.members)
  deps.members.watch(task.stackId, task.drift !== 'off')
  // Whoever wants no look at drift wants nothing done to a revision that is in force, unless a prune of it still waits.
  const isDone = parent.state !== null && parent.basis === null && isInForce(parent.state, task)
  if (isDone && (task.drift === 'off' || (await isUntouched(deps, task, { parent, early }, signal)))) return unchanged(parent.state.event)
  deps.clean.unsettle(task.stackId)
  const read = readObjects(task.text)
  if (!read.ok) return stopped(read.problem)
  const places = { scope: await scopesOf(deps, read.objects, signal), defaultNamespace: deps.settings.defaultNamespace }
  const tenant = await tenantOf(deps, task.stackId, parent, read.objects, places, signal)
  const desired = desiredOf(deps, task, read.objects, places, tenant)
  if (!desired.ok) return stopped(desired.problem)
  const acting = actingFor(deps, tenant)
  if (!acting.ok) return stopped(acting.problem)
  const outcome = await attempt(acting.deps, task, { parent, early, desired: desired.objects, places, tenant }, signal)
  // A member beyond what is wanted still has to go: held back, or of a kind that could not be listed.
  const isWhole = deps.members.membersOf(task.stackId).length === desired.objects.length
  if (outcome.phase === 'applied' && isWhole && (outcome.drift?.isHealed ?? true)) deps.clean.settle(task.stackId, settledAs(task))
  return outcome
}

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

type Places = Parameters<typeof placedObjects>[1]

/** Asked for only where grants or identities make it matter. */
async function tenantOf(
  { tenants, settings }: ReconcileDeps,
  stackId: string,
  parent: StackParent,
  objects: readonly KubeObject[],
  places: Places,
  signal: AbortSignal,
): Promise<Tenant | null> {
  if (parent.tenant) return parent.tenant
  const isAsked =
    needsTenant(settings.tenants) ||
    placedObjects(objects, places).some(
      ({ object, scope }) => grantsNeeded(object, typeof scope === 'string' ? scope : undefined).length > 0,
    )
  return isAsked ? tenants.of(stackId, signal) : tenants.known(stackId)
}

function desiredOf(deps: ReconcileDeps, task: ApplyTask, objects: readonly KubeObject[], places: Places, tenant: Tenant | null): Desired {
  const { settings, agentId, hashKey, parents } = deps
  const marks = {
    stackId: task.stackId,
    agentId,
    applySetId: parents.setId(task.stackId),
    objectId: task.object.id,
    checksum: task.object.checksum,
    hashKey,
  }
  const generator = tenant === null ? '(unknown)' : (tenant.name ?? tenant.generatorId)
  return desiredObjects(objects, { ...places, marks, policy: settings.policy, grants: grantsOf(tenant, settings.tenants), generator })
}

export async function scopesOf({ kube }: Pick<ReconcileDeps, 'kube'>, objects: readonly KubeObject[], signal: AbortSignal): Promise<Scope> {
  const scopes = new Map<string, ReturnType<Scope>>()
  const kindKey = ({ apiVersion, kind }: Kind) => `${apiVersion}|${kind}`
  for (const [key, kind] of new Map(objects.map((object) => [kindKey(object), object]))) {
    try {
      scopes.set(key, (await kube.discovery.resolve(kind, signal)).namespaced ? 'namespaced' : 'cluster')
    } catch (error) {
      // The set may bring the kind itself; if not, this is what is told.
      if (!hasReason(error, 'UnknownKind', 'DiscoveryFailed')) throw error
      scopes.set(key, failureOf(error))
    }
  }
  return (kind) =>
    scopes.get(kindKey(kind)) ?? { code: 'missing_kind', message: `${kind.kind} ${kind.apiVersion} is not known`, retryable: false }
}
