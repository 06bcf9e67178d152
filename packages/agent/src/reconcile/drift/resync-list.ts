// Finds stacks whose members all have their verified versions, by one metadata list per kind, page by page. Stacks without this proof are
// reconciled one by one.

import {
  apiVersionOf,
  type GroupKind,
  groupKindText,
  hasLabels,
  identityKey,
  identityOf,
  indexMembers,
  isTerminating,
  type KubeObject,
  selectorOf,
} from '@brokkr/kube'
import { listAllowedNamespaces } from '../../policy/policy.ts'
import type { ReconcileDeps } from '../deps.ts'
import { OWNER_LABEL, STACK_LABEL, toOwnershipLabels } from '../plan/ownership-metadata.ts'
import { needsGenerator } from '../stack-generators.ts'

/** Returns those of the stacks whose members and parent are unchanged. */
export async function findUnchangedStacks(
  deps: ReconcileDeps,
  stackIds: readonly string[],
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  // Generator identities do not allow one list for all stacks.
  if (stackIds.length === 0 || needsGenerator(deps.settings.tenants)) return new Set()
  const candidates = await deps.parents.unchanged(signal)
  const stacks = new Map(stackIds.filter((id) => candidates.has(id)).map((id) => [id, new Count(deps, id)]))
  const kinds = new Map<string, GroupKind>()
  for (const { members } of stacks.values())
    for (const { group, kind } of members) kinds.set(groupKindText({ group, kind }), { group, kind })
  for (const kind of kinds.values())
    for (const namespace of listAllowedNamespaces(deps.settings.policy) ?? [''])
      for await (const page of pagesOf(deps, kind, namespace, signal))
        for (const object of page) stacks.get(object.metadata.labels?.[STACK_LABEL] ?? '')?.take(object)
  return new Set([...stacks].filter(([, count]) => count.isComplete).map(([id]) => id))
}

/** Small pages: the scan is not urgent, and memory stays low. */
const pageSize = 100

/** A kind that cannot be listed leaves its stacks without proof. */
async function* pagesOf({ kube, agentId }: ReconcileDeps, kind: GroupKind, namespace: string, signal: AbortSignal) {
  try {
    const { group, version } = await kube.discovery.resolveGroupKind(kind, signal)
    const call = { namespace, labelSelector: selectorOf({ [OWNER_LABEL]: agentId }), metadataOnly: true, pageSize, signal }
    for await (const { items } of kube.pages({ apiVersion: apiVersionOf(group, version), kind: kind.kind }, call)) yield items
  } catch {
    signal.throwIfAborted()
  }
}

class Count {
  readonly members: ReturnType<ReconcileDeps['members']['listMembers']>
  readonly #clean: ReconcileDeps['verifiedVersions']
  readonly #labels: Record<string, string>
  readonly #open: Map<string, string | undefined>
  #isStrange = false

  constructor({ members, verifiedVersions, agentId, parents }: ReconcileDeps, stackId: string) {
    this.members = members.listMembers(stackId)
    this.#clean = verifiedVersions
    this.#labels = toOwnershipLabels({ stackId, agentId, applySetId: parents.setId(stackId) })
    this.#open = new Map([...indexMembers(this.members)].map(([key, { uid }]) => [key, uid]))
  }

  take(object: KubeObject): void {
    const key = identityKey(identityOf(object))
    const isRight =
      this.#open.has(key) &&
      this.#open.get(key) === object.metadata.uid &&
      hasLabels(object, this.#labels) &&
      !isTerminating(object) &&
      !this.#clean.mayHaveDrifted(object)
    if (isRight) this.#open.delete(key)
    else this.#isStrange = true
  }

  get isComplete(): boolean {
    return !this.#isStrange && this.#open.size === 0
  }
}
