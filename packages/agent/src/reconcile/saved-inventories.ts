// Inventories of all stacks from their parent Secrets, and the unreadable parents. For decisions that need all members, such as the
// deletion of a namespace.
import { type Kube, type Member, type ParentForm, readParents, type UnreadableParent } from '@brokkr/kube'
import { OWNER_LABEL } from './plan/ownership-metadata.ts'

export const PARENT_TYPE = 'brokkr.io/stack'
export const PARENT_PREFIX = 'brokkr-stack-'

export interface SavedInventories {
  readonly stacks: readonly { readonly stackId: string; readonly members: readonly Member[] }[]
  readonly unreadable: readonly UnreadableParent[]
}

/** Finds parents by the immutable type of the Secret, so that a parent without labels counts too. Excludes parents of other agents. */
export async function readInventories(
  deps: { kube: Kube },
  { namespace, agentId }: { namespace: string; agentId: string },
  form: ParentForm,
  signal: AbortSignal,
): Promise<SavedInventories> {
  const stacks: SavedInventories['stacks'][number][] = []
  const unreadable: UnreadableParent[] = []
  for await (const parent of readParents(deps, { namespace, fieldSelector: `type=${PARENT_TYPE}` }, form, { signal })) {
    if ((parent.labels[OWNER_LABEL] ?? agentId) !== agentId) continue
    if ('set' in parent) stacks.push({ stackId: parent.name.slice(PARENT_PREFIX.length), members: parent.set.members })
    else unreadable.push(parent)
  }
  return { stacks, unreadable }
}
