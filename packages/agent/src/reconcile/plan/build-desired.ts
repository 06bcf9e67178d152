// Builds the desired objects of a deployment object with namespace, ownership metadata and generator. Reads the scope of kinds from the
// cluster, and the generator from the broker only if grants or identities need it.

import { classifyFailure, hasReason, type Kind, type KubeObject, READ_RETRY, retrying } from '@brokkr/kube'
import { grantsNeeded } from '../../policy/policy.ts'
import type { ApplyTask } from '../apply/apply-task.ts'
import type { ReconcileDeps } from '../deps.ts'
import type { Problem } from '../problem.ts'
import { type GeneratorRef, getGrants, needsGenerator } from '../stack-generators.ts'
import type { StackParent } from '../stack-parents.ts'
import {
  type DesiredObject,
  type DesiredResult,
  type DesiredRules,
  parseObjects,
  type Scope,
  toDesiredObjects,
  withOwnDefinitions,
} from './desired.ts'

export type Placement = Pick<DesiredRules, 'scope' | 'defaultNamespace'>
export interface BuiltDesired {
  readonly desired: readonly DesiredObject[]
  readonly placement: Placement
  readonly generator: GeneratorRef | null
}

export async function buildDesired(
  deps: ReconcileDeps,
  task: ApplyTask,
  parent: StackParent,
  signal: AbortSignal,
): Promise<({ readonly ok: true } & BuiltDesired) | { readonly ok: false; readonly problem: Problem }> {
  const parsed = parseObjects(task.text)
  if (!parsed.ok) return parsed
  const placement = await toPlacement(deps, parsed.objects, signal)
  const { generators } = deps
  const needsBroker = needsGenerator(deps.settings.tenants) || needsGrants(parsed.objects, placement)
  const generator = parent.generator ?? (needsBroker ? await generators.find(task.stackId, signal) : generators.get(task.stackId))
  const desired = toDesired(deps, task, parsed.objects, placement, generator)
  return desired.ok ? { ok: true, desired: desired.objects, placement, generator } : desired
}

/** Same without the generator, so that the parent is not needed; null if the generator is needed or the manifest is invalid. */
export async function buildDesiredWithoutGenerator(
  deps: ReconcileDeps,
  task: ApplyTask,
  signal: AbortSignal,
): Promise<Omit<BuiltDesired, 'generator'> | null> {
  const parsed = parseObjects(task.text)
  if (!parsed.ok || needsGenerator(deps.settings.tenants)) return null
  const placement = await toPlacement(deps, parsed.objects, signal)
  if (needsGrants(parsed.objects, placement)) return null
  const desired = toDesired(deps, task, parsed.objects, placement, null)
  return desired.ok ? { desired: desired.objects, placement } : null
}

const toPlacement = async (deps: ReconcileDeps, objects: readonly KubeObject[], signal: AbortSignal): Promise<Placement> => ({
  scope: await readScopes(deps, objects, signal),
  defaultNamespace: deps.settings.defaultNamespace,
})

function needsGrants(objects: readonly KubeObject[], placement: Placement): boolean {
  const getScope = withOwnDefinitions(objects, placement.scope)
  return objects.some((object) => {
    const scope = getScope(object)
    return grantsNeeded(object, typeof scope === 'string' ? scope : undefined).length > 0
  })
}

function toDesired(
  deps: ReconcileDeps,
  task: ApplyTask,
  objects: readonly KubeObject[],
  placement: Placement,
  generator: GeneratorRef | null,
): DesiredResult {
  const { settings, agentId, hashKey, parents } = deps
  const metadata = {
    stackId: task.stackId,
    agentId,
    applySetId: parents.setId(task.stackId),
    objectId: task.object.id,
    checksum: task.object.checksum,
    hashKey,
  }
  const generatorName = generator === null ? '(unknown)' : (generator.name ?? generator.generatorId)
  return toDesiredObjects(objects, {
    ...placement,
    metadata,
    policy: settings.policy,
    grants: getGrants(generator, settings.tenants),
    generator: generatorName,
  })
}

export async function readScopes(
  deps: Pick<ReconcileDeps, 'kube' | 'clock'>,
  objects: readonly KubeObject[],
  signal: AbortSignal,
): Promise<Scope> {
  const scopes = new Map<string, ReturnType<Scope>>()
  const kindKey = ({ apiVersion, kind }: Kind) => `${apiVersion}|${kind}`
  for (const [key, kind] of new Map(objects.map((object) => [kindKey(object), object]))) {
    try {
      const { namespaced } = await retrying(deps, READ_RETRY, () => deps.kube.discovery.resolve(kind, signal), signal)
      scopes.set(key, namespaced ? 'namespaced' : 'cluster')
    } catch (error) {
      // The set may define the kind itself; otherwise this failure is reported.
      if (!hasReason(error, 'UnknownKind', 'DiscoveryFailed')) throw error
      scopes.set(key, classifyFailure(error))
    }
  }
  return (kind) =>
    scopes.get(kindKey(kind)) ?? { code: 'missing_kind', message: `${kind.kind} ${kind.apiVersion} is not known`, retryable: false }
}
