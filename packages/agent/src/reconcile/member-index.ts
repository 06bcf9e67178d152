// Inventories of all stacks in memory: which object is a member of which stack, under which uid. Filled from the parents; the cluster is
// authoritative.
import { type GroupKind, groupKindText, identityKey, type Member, parseGroupKind } from '@brokkr/kube'

/** Copies the texts: a slice of a manifest would keep the whole manifest, with its secrets, in memory. */
export const copyMembers = (members: readonly Member[]): Member[] => JSON.parse(JSON.stringify(members)) as Member[]

interface Holder {
  readonly stackId: string
  readonly uid: string | undefined
}

export class MemberIndex {
  readonly #byStack = new Map<string, readonly Member[]>()
  /** Two stacks can name one object while it moves; usually it is one, so a short list is enough. */
  readonly #byKey = new Map<string, readonly Holder[]>()
  readonly #kindCounts = new Map<string, number>()
  /** Stacks with drift detection off. */
  readonly #unwatched = new Set<string>()
  readonly #listeners = new Set<() => void>()

  /** Called when the first member of a kind is added or the last one is removed. */
  onKinds(listener: () => void): void {
    this.#listeners.add(listener)
  }

  set(stackId: string, members: readonly Member[]): void {
    const before = this.#byStack.get(stackId) ?? []
    this.#byStack.set(stackId, members)
    // Adds new members first, so that a kind that stays in use is never reported as unused.
    const came = members.filter((member) => this.#add(stackId, member)).length
    const keptKeys = new Set(members.map(identityKey))
    const went = before.filter((member) => this.#subtract(stackId, member, keptKeys)).length
    if (came + went > 0) for (const listener of this.#listeners) listener()
  }

  /** Whether the kinds of this stack are watched. */
  watch(stackId: string, isWatched: boolean): void {
    if (isWatched !== this.#unwatched.has(stackId)) return
    const members = this.#byStack.get(stackId) ?? []
    this.set(stackId, [])
    if (isWatched) this.#unwatched.delete(stackId)
    else this.#unwatched.add(stackId)
    this.set(stackId, members)
  }

  delete(stackId: string): void {
    this.set(stackId, [])
    this.#byStack.delete(stackId)
    this.#unwatched.delete(stackId)
  }

  get size(): number {
    return this.#byKey.size
  }

  /** Stacks that contain exactly this object; a planned member without uid matches too. */
  findStacks(key: string, uid: string): string[] {
    const holders = this.#byKey.get(key) ?? []
    return holders.filter((holder) => holder.uid === undefined || holder.uid === uid).map(({ stackId }) => stackId)
  }

  /** Stacks that contain an object of this name with any uid: it may have been created again. */
  findHolders(key: string): string[] {
    return (this.#byKey.get(key) ?? []).map(({ stackId }) => stackId)
  }

  listKeys(stackId: string): string[] {
    return this.listMembers(stackId).map(identityKey)
  }

  listMembers(stackId: string): readonly Member[] {
    return this.#byStack.get(stackId) ?? []
  }

  kinds(): GroupKind[] {
    return [...this.#kindCounts.keys()].map(parseGroupKind)
  }

  /** Whether another stack has such a member. */
  isUsedByOthers(stackId: string, is: (member: Member) => boolean): boolean {
    return [...this.#byStack].some(([other, members]) => other !== stackId && members.some(is))
  }

  /** Returns true for the first member of its kind. */
  #add(stackId: string, member: Member): boolean {
    const key = identityKey(member)
    const holder = { stackId, uid: member.uid }
    const others = this.#byKey.get(key)?.filter((other) => other.stackId !== stackId) ?? []
    // Avoids spreading: its result has spare capacity, multiplied by thousands of members.
    this.#byKey.set(key, others.length === 0 ? [holder] : [...others, holder])
    if (this.#unwatched.has(stackId)) return false
    const kind = groupKindText(member)
    const count = (this.#kindCounts.get(kind) ?? 0) + 1
    this.#kindCounts.set(kind, count)
    return count === 1
  }

  /** Returns true for the last member of its kind. */
  #subtract(stackId: string, member: Member, keptKeys: ReadonlySet<string>): boolean {
    const key = identityKey(member)
    const others = this.#byKey.get(key)?.filter((holder) => holder.stackId !== stackId) ?? []
    if (!keptKeys.has(key) && others.length > 0) this.#byKey.set(key, others)
    else if (!keptKeys.has(key)) this.#byKey.delete(key)
    if (this.#unwatched.has(stackId)) return false
    const kind = groupKindText(member)
    const count = (this.#kindCounts.get(kind) ?? 1) - 1
    if (count > 0) this.#kindCounts.set(kind, count)
    else this.#kindCounts.delete(kind)
    return count <= 0
  }
}
