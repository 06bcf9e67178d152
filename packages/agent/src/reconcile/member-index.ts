// The inventories of all stacks in memory: which objects are members, of which stack, under which uid. Filled from the parents
// at start and with every look; what is in the cluster stays the truth.
import { type Member, parseGroupKind } from '@brokkr/kube/applyset.ts'
import { type GroupKind, groupKindText, identityKey } from '@brokkr/kube/object.ts'

/** What was cut out of a manifest keeps all of its text in memory, secrets included, for as long as it is a member. */
export const withOwnTexts = (members: readonly Member[]): Member[] => JSON.parse(JSON.stringify(members)) as Member[]

interface Holder {
  readonly stackId: string
  readonly uid: string | undefined
}

export class MemberIndex {
  readonly #byStack = new Map<string, readonly Member[]>()
  /** Two stacks may name one object while it changes hands; mostly it is one, so a short list is enough. */
  readonly #byKey = new Map<string, readonly Holder[]>()
  readonly #kindCounts = new Map<string, number>()
  /** Stacks whose members nobody wants to watch. */
  readonly #unwatched = new Set<string>()
  readonly #listeners = new Set<() => void>()

  /** Called when a kind has come into use or gone out of it. */
  onKinds(listener: () => void): void {
    this.#listeners.add(listener)
  }

  set(stackId: string, members: readonly Member[]): void {
    const before = this.#byStack.get(stackId) ?? []
    this.#byStack.set(stackId, members)
    // The new ones first, so that a kind that stays in use never seems to go.
    const came = members.filter((member) => this.#add(stackId, member)).length
    const kept = new Set(members.map(identityKey))
    const went = before.filter((member) => this.#subtract(stackId, member, kept)).length
    if (came + went > 0) for (const listener of this.#listeners) listener()
  }

  /** Whether kinds are in use because of this stack. */
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

  /** The stacks that hold this very object; a planned member without uid counts as it. */
  stacksOf(key: string, uid: string): string[] {
    const holders = this.#byKey.get(key) ?? []
    return holders.filter((holder) => holder.uid === undefined || holder.uid === uid).map(({ stackId }) => stackId)
  }

  /** The stacks that name such an object, under whatever uid: it may just be made anew. */
  holdersOf(key: string): string[] {
    return (this.#byKey.get(key) ?? []).map(({ stackId }) => stackId)
  }

  keysOf(stackId: string): string[] {
    return this.membersOf(stackId).map(identityKey)
  }

  membersOf(stackId: string): readonly Member[] {
    return this.#byStack.get(stackId) ?? []
  }

  kinds(): GroupKind[] {
    return [...this.#kindCounts.keys()].map(parseGroupKind)
  }

  /** Whether a stack other than this one has such a member. */
  isUsedByOthers(stackId: string, is: (member: Member) => boolean): boolean {
    return [...this.#byStack].some(([other, members]) => other !== stackId && members.some(is))
  }

  /** True: the first of its kind. */
  #add(stackId: string, member: Member): boolean {
    const key = identityKey(member)
    const holder = { stackId, uid: member.uid }
    const others = this.#byKey.get(key)?.filter((other) => other.stackId !== stackId) ?? []
    // A list made by spreading has room to grow, thousands of times over.
    this.#byKey.set(key, others.length === 0 ? [holder] : [...others, holder])
    if (this.#unwatched.has(stackId)) return false
    const kind = groupKindText(member)
    const count = (this.#kindCounts.get(kind) ?? 0) + 1
    this.#kindCounts.set(kind, count)
    return count === 1
  }

  /** True: the last of its kind. */
  #subtract(stackId: string, member: Member, kept: ReadonlySet<string>): boolean {
    const key = identityKey(member)
    const others = this.#byKey.get(key)?.filter((holder) => holder.stackId !== stackId) ?? []
    if (!kept.has(key) && others.length > 0) this.#byKey.set(key, others)
    else if (!kept.has(key)) this.#byKey.delete(key)
    if (this.#unwatched.has(stackId)) return false
    const kind = groupKindText(member)
    const count = (this.#kindCounts.get(kind) ?? 1) - 1
    if (count > 0) this.#kindCounts.set(kind, count)
    else this.#kindCounts.delete(kind)
    return count <= 0
  }
}
