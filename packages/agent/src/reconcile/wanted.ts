// What a revision wants of the cluster: its text as checked, marked objects, each in its place, and whose they are. The cluster is
// asked for no more than the scope of kinds, the broker only where grants or identities make it matter whose stack it is.
import { hasReason } from '@brokkr/kube/api-error.ts'
import { failureOf } from '@brokkr/kube/failure.ts'
import type { Kind, KubeObject } from '@brokkr/kube/object.ts'
import { grantsNeeded } from '../policy.ts'
import type { ApplyTask } from './apply-task.ts'
import type { ReconcileDeps } from './deps.ts'
import { type Desired, type DesiredObject, type DesiredRules, desiredObjects, readObjects, type Scope, scopeWithin } from './desired.ts'
import type { Problem } from './problem.ts'
import type { StackParent } from './stack-parents.ts'
import { grantsOf, needsTenant, type Tenant } from './tenants.ts'

export type Places = Pick<DesiredRules, 'scope' | 'defaultNamespace'>
export interface Wanted {
  readonly desired: readonly DesiredObject[]
  readonly places: Places
  readonly tenant: Tenant | null
}

export async function wantedOf(
  deps: ReconcileDeps,
  task: ApplyTask,
  parent: StackParent,
  signal: AbortSignal,
): Promise<({ readonly ok: true } & Wanted) | { readonly ok: false; readonly problem: Problem }> {
  const read = readObjects(task.text)
  if (!read.ok) return read
  const places = await placesOf(deps, read.objects, signal)
  const { tenants } = deps
  const isAsked = needsTenant(deps.settings.tenants) || needsGrants(read.objects, places)
  const tenant = parent.tenant ?? (isAsked ? await tenants.of(task.stackId, signal) : tenants.known(task.stackId))
  const desired = desiredOf(deps, task, read.objects, places, tenant)
  return desired.ok ? { ok: true, desired: desired.objects, places, tenant } : desired
}

/** The same where it does not matter whose the stack is, so that nothing of it has to be read; null: it does, or it cannot be. */
export async function wantedOfAnybody(deps: ReconcileDeps, task: ApplyTask, signal: AbortSignal): Promise<Omit<Wanted, 'tenant'> | null> {
  const read = readObjects(task.text)
  if (!read.ok || needsTenant(deps.settings.tenants)) return null
  const places = await placesOf(deps, read.objects, signal)
  if (needsGrants(read.objects, places)) return null
  const desired = desiredOf(deps, task, read.objects, places, null)
  return desired.ok ? { desired: desired.objects, places } : null
}

const placesOf = async (deps: ReconcileDeps, objects: readonly KubeObject[], signal: AbortSignal): Promise<Places> => ({
  scope: await scopesOf(deps, objects, signal),
  defaultNamespace: deps.settings.defaultNamespace,
})

function needsGrants(objects: readonly KubeObject[], places: Places): boolean {
  const scopeOf = scopeWithin(objects, places.scope)
  return objects.some((object) => {
    const scope = scopeOf(object)
    return grantsNeeded(object, typeof scope === 'string' ? scope : undefined).length > 0
  })
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
