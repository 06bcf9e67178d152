// Custom resource definitions inside a set: which kinds they bring, and waiting until the API server serves them.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { hasReason, KubeError } from './api-error.ts'
import { rowsAt, textAt } from './fields.ts'
import type { Kube } from './kube.ts'
import { apiVersionOf, describeRef, type GroupKind, type Kind, type KubeObject, refOf } from './object.ts'

export const isCrd = (object: Kind): boolean =>
  object.kind === 'CustomResourceDefinition' && object.apiVersion.startsWith('apiextensions.k8s.io/')

export function kindOfCrd(crd: KubeObject): GroupKind {
  return { group: textAt(crd, 'spec', 'group') ?? '', kind: textAt(crd, 'spec', 'names', 'kind') ?? '' }
}

/** Kinds in the versions that the definition serves. */
export function servedKindsOf(crd: KubeObject): Kind[] {
  const { group, kind } = kindOfCrd(crd)
  return rowsAt(crd, 'spec', 'versions')
    .filter((version) => version['served'] === true)
    .map((version) => ({ apiVersion: apiVersionOf(group, textAt(version, 'name') ?? ''), kind }))
}

export const isEstablished = (crd: KubeObject): boolean =>
  rowsAt(crd, 'status', 'conditions').some((condition) => condition['type'] === 'Established' && condition['status'] === 'True')

const CRD = { apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition' }

/** Is there a definition of this kind? Then its objects stand, although discovery may miss it while it is registered anew. */
export async function isDefined(deps: { kube: Kube }, { group, kind }: GroupKind, signal?: AbortSignal): Promise<boolean> {
  try {
    const { items } = await deps.kube.list(CRD, { metadataOnly: true, signal })
    for (const { metadata } of items.filter((crd) => group !== '' && crd.metadata.name.endsWith(`.${group}`))) {
      const crd = await deps.kube.find({ ...CRD, name: metadata.name }, { signal })
      if (crd && kindOfCrd(crd).kind === kind) return true
    }
    return false
  } catch (error) {
    signal?.throwIfAborted()
    // Whoever may not see definitions has only discovery to believe; after any other failure nobody knows.
    return !hasReason(error, 'Forbidden')
  }
}

/** Ends when the definition is Established and discovery lists all its served kinds; throws DiscoveryFailed when that takes longer. */
export async function waitForCrd(
  deps: { kube: Kube; clock: Clock },
  crd: KubeObject,
  options: { limitMs: number; signal?: AbortSignal | undefined },
): Promise<void> {
  const untilMs = deps.clock.monotonicMs() + options.limitMs
  for (let pauseMs = 20; ; pauseMs = Math.min(500, pauseMs * 1.5)) {
    options.signal?.throwIfAborted()
    const reason = await whyNotServed(deps.kube, crd)
    if (reason === undefined) return
    if (deps.clock.monotonicMs() >= untilMs)
      throw new KubeError(`${describeRef(refOf(crd))}: ${reason} after ${options.limitMs} ms`, { reason: 'DiscoveryFailed' })
    await deps.clock.sleep(pauseMs, options.signal)
  }
}

async function whyNotServed(kube: Kube, crd: KubeObject): Promise<string | undefined> {
  try {
    const live = await kube.get(refOf(crd))
    if (!isEstablished(live)) return 'not Established'
    for (const kind of servedKindsOf(live)) await kube.discovery.resolve(kind)
    return undefined
  } catch (error) {
    if (hasReason(error, 'UnknownKind', 'NotFound', 'DiscoveryFailed')) return 'not listed by discovery'
    if (error instanceof KubeError && error.retryable) return error.message
    throw error
  }
}
