// Reads and writes the parents of ApplySets, and lists the members that exist in the cluster.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import type { CallOptions, Kube, Selection } from '../client/kube.ts'
import { hasReason, isObjectNotFound } from '../client/kube-error.ts'
import { apiVersionOf, type GroupKind, type KubeObject, selectorOf } from '../client/object.ts'
import { READ_RETRY, type RetryPolicy, retrying } from '../client/retry.ts'
import { type ApplySet, applySetId, decodeApplySet, encodeApplySet, PART_OF_LABEL, type ParentForm } from './applyset.ts'
import { isProvenAbsent } from './crd.ts'
import { classifyFailure, type Failure } from './failure.ts'

const SECRET = { apiVersion: 'v1', kind: 'Secret' }

export interface ParentAt {
  name: string
  namespace: string
}

/** Returns undefined if there is no parent; throws ForeignApplySet if the parent belongs to another tool. */
export async function readApplySet(
  deps: { kube: Kube },
  at: ParentAt,
  form: ParentForm,
  options: CallOptions = {},
): Promise<ApplySet | undefined> {
  const secret = await deps.kube.find({ ...SECRET, ...at }, options)
  return secret && decodeApplySet(secret, form)
}

export interface UnreadableParent {
  name: string
  error: Error
}

/** Lists parents with these labels in a namespace. Unreadable parents are returned as errors beside the others. */
export async function listApplySets(
  deps: { kube: Kube },
  at: { namespace: string; labels: Record<string, string> },
  form: ParentForm,
  options: CallOptions = {},
): Promise<{ sets: ApplySet[]; unreadable: UnreadableParent[] }> {
  const sets: ApplySet[] = []
  const unreadable: UnreadableParent[] = []
  for await (const parent of readParents(deps, { namespace: at.namespace, labelSelector: selectorOf(at.labels) }, form, options)) {
    if ('set' in parent) sets.push(parent.set)
    else unreadable.push(parent)
  }
  return { sets, unreadable }
}

export type ParentRead = { name: string; labels: Readonly<Record<string, string>> } & ({ set: ApplySet } | { error: Error })

/** Iterates over the same parents, so that only one page is in memory. */
export async function* readParents(
  deps: { kube: Kube },
  selection: Pick<Selection, 'namespace' | 'labelSelector' | 'fieldSelector'>,
  form: ParentForm,
  options: CallOptions = {},
): AsyncGenerator<ParentRead> {
  for await (const page of deps.kube.pages(SECRET, { ...options, ...selection, pageSize: 50 }))
    for (const secret of page.items) {
      const { name, labels = {} } = secret.metadata
      try {
        yield { name, labels, set: decodeApplySet(secret, form) }
      } catch (error) {
        yield { name, labels, error: error as Error }
      }
    }
}

export async function saveApplySet(
  deps: { kube: Kube },
  set: ApplySet,
  form: ParentForm,
  options: CallOptions & { fieldManager: string },
): Promise<KubeObject> {
  return (await deps.kube.apply(encodeApplySet(set, form), { ...options, force: true })).object
}

/** Last step of a removal, when no member is left. */
export async function removeApplySet(deps: { kube: Kube }, at: ParentAt, options: CallOptions = {}): Promise<void> {
  try {
    await deps.kube.delete({ ...SECRET, ...at }, options)
  } catch (error) {
    if (!isObjectNotFound(error)) throw error
  }
}

export interface MemberList {
  /** Metadata only. */
  members: KubeObject[]
  /** Kinds that could not be listed: their objects must not be treated as absent. */
  incomplete: { kind: GroupKind; namespace: string; failure: Failure }[]
  /** Kinds that provably have no objects. */
  absent: GroupKind[]
}

export interface ListMembersOptions extends CallOptions {
  concurrency?: number
  /** False if the caller may not read CRDs, so that no kind can be proven absent. */
  readsDefinitions?: boolean
  retry?: RetryPolicy
}

/** Shorter than the retry of other calls: a kind whose list fails is left out of this run, which the caller repeats. */
const LIST_RETRY: RetryPolicy = { ...READ_RETRY, totalMs: 30_000 }

/** Lists everything with the ApplySet's label in its kinds and namespaces. */
export async function listMembers(
  deps: { kube: Kube; clock: Clock },
  set: ApplySet,
  { retry = LIST_RETRY, ...options }: ListMembersOptions = {},
): Promise<MemberList> {
  const list: MemberList = { members: [], incomplete: [], absent: [] }
  const places = await listLocations(deps, set, list, { ...options, retry })
  await mapBounded(places, options.concurrency ?? 8, async ({ kind, apiVersion, namespace }) => {
    try {
      const call = { ...options, namespace, labelSelector: selectorOf({ [PART_OF_LABEL]: applySetId(set) }), metadataOnly: true }
      const listed = await retrying(deps, retry, () => deps.kube.list({ apiVersion, kind: kind.kind }, call), options.signal)
      list.members.push(...listed.items)
    } catch (error) {
      options.signal?.throwIfAborted()
      list.incomplete.push({ kind, namespace, failure: classifyFailure(error) })
    }
  })
  return list
}

interface Place {
  kind: GroupKind
  apiVersion: string
  namespace: string
}

async function listLocations(
  deps: { kube: Kube; clock: Clock },
  set: ApplySet,
  list: MemberList,
  { readsDefinitions = true, signal, retry = LIST_RETRY }: ListMembersOptions,
): Promise<Place[]> {
  const places: Place[] = []
  for (const kind of set.kinds) {
    try {
      const resource = await retrying(deps, retry, () => deps.kube.discovery.resolveGroupKind(kind, signal), signal)
      const apiVersion = apiVersionOf(resource.group, resource.version)
      for (const namespace of resource.namespaced ? set.namespaces : ['']) places.push({ kind, apiVersion, namespace })
    } catch (error) {
      signal?.throwIfAborted()
      const isAbsent = hasReason(error, 'UnknownKind') && readsDefinitions && (await isProvenAbsent(deps, kind, signal))
      if (isAbsent) list.absent.push(kind)
      else list.incomplete.push({ kind, namespace: '', failure: classifyFailure(error) })
    }
  }
  return places
}
