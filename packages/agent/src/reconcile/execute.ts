// Brings one stack to a revision: what the manifest wants, then one attempt on the cluster. A crash between any two steps of it
// leaves the inventory naming too much, never too little.
import { hasReason } from '@brokkr/kube/api-error.ts'
import type { Kind, KubeObject } from '@brokkr/kube/object.ts'
import { type ApplyTask, Attempt, isInForce } from './attempt.ts'
import type { ReconcileDeps } from './deps.ts'
import { type Desired, desiredObjects, readObjects, type Scope } from './desired.ts'
import type { Marks } from './marks.ts'
import { type Outcome, stopped } from './outcome.ts'

/** Throws only the signal's reason, or what nobody expected. */
export async function applyStack(deps: ReconcileDeps, task: ApplyTask, signal: AbortSignal): Promise<Outcome> {
  const parent = await deps.parents.read(task.stackId, signal)
  deps.members.set(task.stackId, parent.set.members)
  // Whoever does not want drift healed wants nothing done to a revision that is already in force.
  if (task.drift !== 'heal' && parent.state && isInForce(parent.state, task))
    return { phase: 'applied', objects: [], event: parent.state.event, isNew: false }
  const desired = await desiredOf(deps, task, signal)
  if (!desired.ok) return stopped(desired.problem)
  return new Attempt(deps, task, parent, desired.objects, signal).run()
}

async function desiredOf(deps: ReconcileDeps, task: ApplyTask, signal: AbortSignal): Promise<Desired> {
  const read = readObjects(task.text)
  if (!read.ok) return read
  const marks: Marks = {
    stackId: task.stackId,
    agentId: deps.agentId,
    applySetId: deps.parents.setId(task.stackId),
    objectId: task.object.id,
    checksum: task.object.checksum,
    hashKey: deps.hashKey,
  }
  const { policy, defaultNamespace } = deps.settings
  return desiredObjects(read.objects, { marks, policy, defaultNamespace, scope: await scopesOf(deps, read.objects, signal) })
}

async function scopesOf({ kube }: ReconcileDeps, objects: readonly KubeObject[], signal: AbortSignal): Promise<Scope> {
  const scopes = new Map<string, 'namespaced' | 'cluster'>()
  const kindKey = ({ apiVersion, kind }: Kind) => `${apiVersion}|${kind}`
  for (const [key, kind] of new Map(objects.map((object) => [kindKey(object), object]))) {
    try {
      scopes.set(key, (await kube.discovery.resolve(kind, signal)).namespaced ? 'namespaced' : 'cluster')
    } catch (error) {
      // The set may bring the kind itself; if not, the apply says that it is missing.
      if (!hasReason(error, 'UnknownKind', 'DiscoveryFailed')) throw error
    }
  }
  return (kind) => scopes.get(kindKey(kind))
}
