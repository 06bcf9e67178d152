// Custom resource definitions (CRDs) in a set: the kinds they define, and waiting until the API server serves them.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { rowsAt, textAt } from '../client/fields.ts'
import { decodeJson } from '../client/json.ts'
import type { Kube } from '../client/kube.ts'
import { hasReason, KubeError } from '../client/kube-error.ts'
import { apiVersionOf, describeRef, type GroupKind, type Kind, type KubeObject, refOf } from '../client/object.ts'

export const isCrd = (object: Kind): boolean =>
  object.kind === 'CustomResourceDefinition' && object.apiVersion.startsWith('apiextensions.k8s.io/')

export function readCrdKind(crd: KubeObject): GroupKind {
  return { group: textAt(crd, 'spec', 'group') ?? '', kind: textAt(crd, 'spec', 'names', 'kind') ?? '' }
}

/** Kinds in the versions that the CRD serves. */
function listServedKinds(crd: KubeObject): Kind[] {
  const { group, kind } = readCrdKind(crd)
  return rowsAt(crd, 'spec', 'versions')
    .filter((version) => version['served'] === true)
    .map((version) => ({ apiVersion: apiVersionOf(group, textAt(version, 'name') ?? ''), kind }))
}

export const isEstablished = (crd: KubeObject): boolean =>
  rowsAt(crd, 'status', 'conditions').some((condition) => condition['type'] === 'Established' && condition['status'] === 'True')

const CRD = { apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition' }

/** Proves that no object of a kind can exist. A kind missing from discovery is no proof, because discovery can miss it for a moment. The
 *  CRDs must be readable and none may define it, and the discovery documents of its group must respond without it. */
export async function isProvenAbsent(deps: { kube: Kube }, kind: GroupKind, signal?: AbortSignal): Promise<boolean> {
  try {
    return !(await isDefined(deps.kube, kind, signal)) && !(await isListedByGroup(deps.kube, kind, signal))
  } catch (error) {
    signal?.throwIfAborted()
    if (error instanceof KubeError) return false
    throw error
  }
}

async function isDefined(kube: Kube, { group, kind }: GroupKind, signal: AbortSignal | undefined): Promise<boolean> {
  const { items } = await kube.list(CRD, { metadataOnly: true, signal })
  for (const { metadata } of items.filter((crd) => group !== '' && crd.metadata.name.endsWith(`.${group}`))) {
    const crd = await kube.find({ ...CRD, name: metadata.name }, { signal })
    if (crd && readCrdKind(crd).kind === kind) return true
  }
  return false
}

/** Reads the documents of the group's own servers, because the group may be an aggregated API. */
async function isListedByGroup(kube: Kube, { group, kind }: GroupKind, signal: AbortSignal | undefined): Promise<boolean> {
  const root = group === '' ? '/api' : `/apis/${group}`
  const versions = group === '' ? ['v1'] : rowsAt(await readDocument(kube, root, signal), 'versions').map((row) => textAt(row, 'version'))
  for (const version of versions) {
    const resources = await readDocument(kube, `${root}/${version}`, signal)
    if (rowsAt(resources, 'resources').some((resource) => resource['kind'] === kind)) return true
  }
  return false
}

/** Returns undefined if the API server does not serve the path. */
async function readDocument(kube: Kube, path: string, signal: AbortSignal | undefined): Promise<unknown> {
  try {
    return decodeJson((await kube.request('GET', path, { signal })).text)
  } catch (error) {
    if (hasReason(error, 'NotFound')) return undefined
    throw error
  }
}

/** Resolves when the CRD is Established and discovery lists all its served kinds; throws DiscoveryFailed after the time limit. */
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
    for (const kind of listServedKinds(live)) await kube.discovery.resolve(kind)
    return undefined
  } catch (error) {
    if (hasReason(error, 'UnknownKind', 'NotFound', 'DiscoveryFailed')) return 'not listed by discovery'
    if (error instanceof KubeError && error.retryable) return error.message
    throw error
  }
}
