// Reading and writing the parents of sets, and listing the members that really stand in the cluster.
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import { hasReason } from './api-error.ts'
import { type ApplySet, applySetId, decodeApplySet, encodeApplySet, PART_OF_LABEL, type ParentForm } from './applyset.ts'
import { isDefined } from './crd.ts'
import { type Failure, failureOf } from './failure.ts'
import type { CallOptions, Kube } from './kube.ts'
import { apiVersionOf, type GroupKind, type KubeObject, selectorOf } from './object.ts'

const SECRET = { apiVersion: 'v1', kind: 'Secret' }

export interface ParentAt {
  name: string
  namespace: string
}

/** Undefined when there is none; throws ForeignApplySet for a parent that is not ours. */
export async function readApplySet(
  deps: { kube: Kube },
  at: ParentAt,
  form: ParentForm,
  options: CallOptions = {},
): Promise<ApplySet | undefined> {
  const secret = await deps.kube.find({ ...SECRET, ...at }, options)
  return secret && decodeApplySet(secret, form)
}

/** Every parent with these labels in a namespace. Those that cannot be read come back as errors beside the others. */
export async function listApplySets(
  deps: { kube: Kube },
  at: { namespace: string; labels: Record<string, string> },
  form: ParentForm,
  options: CallOptions = {},
): Promise<{ sets: ApplySet[]; unreadable: { name: string; error: Error }[] }> {
  const sets: ApplySet[] = []
  const unreadable: { name: string; error: Error }[] = []
  for await (const page of deps.kube.pages(SECRET, {
    ...options,
    namespace: at.namespace,
    labelSelector: selectorOf(at.labels),
    pageSize: 50,
  })) {
    for (const secret of page.items) {
      try {
        sets.push(decodeApplySet(secret, form))
      } catch (error) {
        unreadable.push({ name: secret.metadata.name, error: error as Error })
      }
    }
  }
  return { sets, unreadable }
}

export async function saveApplySet(
  deps: { kube: Kube },
  set: ApplySet,
  form: ParentForm,
  options: CallOptions & { fieldManager: string },
): Promise<KubeObject> {
  return (await deps.kube.apply(encodeApplySet(set, form), { ...options, force: true })).object
}

/** The last step of a removal, when no member is left. */
export async function removeApplySet(deps: { kube: Kube }, at: ParentAt, options: CallOptions = {}): Promise<void> {
  try {
    await deps.kube.delete({ ...SECRET, ...at }, options)
  } catch (error) {
    if (!hasReason(error, 'NotFound')) throw error
  }
}

export interface MemberList {
  /** Metadata alone. */
  members: KubeObject[]
  /** What could not be listed: nothing of it may be taken for absent. */
  incomplete: { kind: GroupKind; namespace: string; failure: Failure }[]
}

export interface ListMembersOptions extends CallOptions {
  concurrency?: number
  /** Takes a kind that discovery does not name for gone, as whoever must not look at definitions has to. */
  trustsDiscovery?: boolean
}

/** Everything in the set's kinds and namespaces that carries its label, whoever put it there. */
export async function listMembers(deps: { kube: Kube }, set: ApplySet, options: ListMembersOptions = {}): Promise<MemberList> {
  const list: MemberList = { members: [], incomplete: [] }
  const places = await placesOf(deps.kube, set, list, options)
  await mapBounded(places, options.concurrency ?? 8, async ({ kind, apiVersion, namespace }) => {
    try {
      const call = { ...options, namespace, labelSelector: selectorOf({ [PART_OF_LABEL]: applySetId(set) }), metadataOnly: true }
      list.members.push(...(await deps.kube.list({ apiVersion, kind: kind.kind }, call)).items)
    } catch (error) {
      options.signal?.throwIfAborted()
      list.incomplete.push({ kind, namespace, failure: failureOf(error) })
    }
  })
  return list
}

interface Place {
  kind: GroupKind
  apiVersion: string
  namespace: string
}

async function placesOf(kube: Kube, set: ApplySet, list: MemberList, { trustsDiscovery, signal }: ListMembersOptions): Promise<Place[]> {
  const places: Place[] = []
  for (const kind of set.kinds) {
    try {
      const resource = await kube.discovery.resolveGroupKind(kind, signal)
      const apiVersion = apiVersionOf(resource.group, resource.version)
      for (const namespace of resource.namespaced ? set.namespaces : ['']) places.push({ kind, apiVersion, namespace })
    } catch (error) {
      signal?.throwIfAborted()
      // A kind that is no longer served has no objects; a group that does not answer may have all of them.
      const isGone = hasReason(error, 'UnknownKind') && (trustsDiscovery || !(await isDefined({ kube }, kind, signal)))
      if (!isGone) list.incomplete.push({ kind, namespace: '', failure: failureOf(error) })
    }
  }
  return places
}
