// The slow look at everything at once: one list per kind, metadata alone, page by page, tells which stacks stand exactly as this
// process left them. It proves or says nothing: what it does not prove is looked at stack by stack.

import type { KubeObject } from '@brokkr/kube/object.ts'
import {
  apiVersionOf,
  type GroupKind,
  groupKindText,
  hasLabels,
  identityKey,
  identityOf,
  isTerminating,
  selectorOf,
} from '@brokkr/kube/object.ts'
import { indexMembers } from '@brokkr/kube/prune.ts'
import { namespacesOf } from '../policy.ts'
import type { ReconcileDeps } from './deps.ts'
import { OWNER_LABEL, STACK_LABEL, stableLabels } from './marks.ts'
import { needsTenant } from './tenants.ts'

/** Of these stacks, those whose members all stand untouched and whose parent is the one we know. */
export async function surveyStacks(deps: ReconcileDeps, stackIds: readonly string[], signal: AbortSignal): Promise<ReadonlySet<string>> {
  // What is done for a generator is done as its identity, lists included, and one list serves all.
  if (stackIds.length === 0 || needsTenant(deps.settings.tenants)) return new Set()
  const known = await deps.parents.unchanged(signal)
  const stacks = new Map(stackIds.filter((id) => known.has(id)).map((id) => [id, new Count(deps, id)]))
  const kinds = new Map<string, GroupKind>()
  for (const { members } of stacks.values())
    for (const { group, kind } of members) kinds.set(groupKindText({ group, kind }), { group, kind })
  for (const kind of kinds.values())
    for (const namespace of namespacesOf(deps.settings.policy) ?? [''])
      for await (const page of pagesOf(deps, kind, namespace, signal))
        for (const object of page) stacks.get(object.metadata.labels?.[STACK_LABEL] ?? '')?.take(object)
  return new Set([...stacks].filter(([, count]) => count.isComplete).map(([id]) => id))
}

/** Nobody waits for it, so that little of it has to be in memory at once. */
const pageSize = 100

/** A kind that cannot be listed leaves its members unseen, and so their stacks unproven. */
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
  readonly members: ReturnType<ReconcileDeps['members']['membersOf']>
  readonly #clean: ReconcileDeps['clean']
  readonly #labels: Record<string, string>
  readonly #open: Map<string, string | undefined>
  #isStrange = false

  constructor({ members, clean, agentId, parents }: ReconcileDeps, stackId: string) {
    this.members = members.membersOf(stackId)
    this.#clean = clean
    this.#labels = stableLabels({ stackId, agentId, applySetId: parents.setId(stackId) })
    this.#open = new Map([...indexMembers(this.members)].map(([key, { uid }]) => [key, uid]))
  }

  take(object: KubeObject): void {
    const key = identityKey(identityOf(object))
    const isRight =
      this.#open.has(key) &&
      this.#open.get(key) === object.metadata.uid &&
      hasLabels(object, this.#labels) &&
      !isTerminating(object) &&
      !this.#clean.mayBeTouched(object)
    if (isRight) this.#open.delete(key)
    else this.#isStrange = true
  }

  get isComplete(): boolean {
    return !this.#isStrange && this.#open.size === 0
  }
}
