// The reference the feed is compared with: who wants which revision of which stack, in a few plain lines over maps. It hears of a
// change when its commit was confirmed, and knows nothing of rows, cursors or frames.

export interface WantedStack {
  readonly rev: number
  readonly objectId: string | null
}
interface ModelStack {
  readonly labels: Set<string>
  isDeleted: boolean
  rev: number
  objectId: string | null
  /** The newest object; it waits while another one is held. */
  newest: ModelObject | null
  heldId: string | null
  /** The newest object that is no marker, to roll back to. */
  plainSequence: number | null
  /** Agents that had it explicitly when it was deleted. */
  explicitAgents: string[]
}
export interface ModelObject {
  readonly id: string
  readonly sequence: number
}
interface ModelTarget {
  readonly labels: Set<string>
  readonly explicit: Set<string>
}

export interface Saved {
  readonly stacks: ReadonlyMap<string, ModelStack>
  readonly agents: ReadonlyMap<string, ModelTarget>
}

export class Model {
  readonly stacks = new Map<string, ModelStack>()
  readonly agents = new Map<string, ModelTarget>()
  /** Pairs that ended at least once: only these may ever be told to go. */
  readonly #ended = new Set<string>()

  wantedBy(agentId: string): Map<string, WantedStack> {
    const { labels, explicit } = this.agents.get(agentId)!
    const wanted = [...this.stacks].filter(([id, stack]) => !stack.isDeleted && (explicit.has(id) || shares(stack.labels, labels)))
    return new Map(wanted.map(([id, { rev, objectId }]) => [id, { rev, objectId }]))
  }

  submitted(stackId: string, object: ModelObject, is: { marker?: boolean; held?: boolean } = {}): void {
    const stack = this.stacks.get(stackId)!
    stack.newest = object
    stack.rev = object.sequence
    if (is.held === true) stack.heldId = object.id
    if (is.marker !== true) stack.plainSequence = object.sequence
    stack.objectId = stack.heldId ?? object.id
  }

  /** A bound that moves takes a number. */
  bound(stackId: string, heldId: string | null): void {
    const stack = this.stacks.get(stackId)!
    stack.heldId = heldId
    const objectId = heldId ?? stack.newest?.id ?? null
    if (objectId !== stack.objectId) stack.rev += 1
    stack.objectId = objectId
  }

  /** Its agents remove it, and an undelete brings explicit targets back. */
  deleted(stackId: string): void {
    const stack = this.stacks.get(stackId)!
    stack.isDeleted = true
    stack.rev += 1
    stack.heldId = null
    stack.explicitAgents = [...this.agents].flatMap(([id, { explicit }]) => (explicit.delete(stackId) ? [id] : []))
  }

  /** `newest`: the object that the broker lists now, a copy of the wanted one or the deletion marker. */
  undeleted(stackId: string, newest: { readonly id: string; readonly sequence_id: number; readonly is_deletion_marker: boolean }): void {
    const stack = this.stacks.get(stackId)!
    stack.isDeleted = false
    stack.rev += 1
    stack.newest = { id: newest.id, sequence: newest.sequence_id }
    stack.objectId = newest.id
    stack.plainSequence = newest.is_deletion_marker ? null : newest.sequence_id
    for (const id of stack.explicitAgents) this.agents.get(id)!.explicit.add(stackId)
  }

  /** Makes a change and remembers which pairs it ended. */
  change(act: () => void): void {
    const before = this.#pairs()
    act()
    const after = this.#pairs()
    for (const pair of before) if (!after.has(pair)) this.#ended.add(pair)
  }

  /** For a history that may be lost from here on. */
  copy(): Saved {
    return structuredClone({ stacks: this.stacks, agents: this.agents })
  }

  /** What happened since the copy never happened; what it had begun ends. */
  goBackTo(saved: Saved): void {
    this.change(() => {
      const { stacks, agents } = structuredClone(saved)
      for (const [id, stack] of stacks) this.stacks.set(id, stack)
      for (const [id, agent] of agents) this.agents.set(id, agent)
    })
  }

  mayBeGone(agentId: string, stackId: string): boolean {
    return this.#ended.has(`${agentId} ${stackId}`)
  }

  #pairs(): Set<string> {
    return new Set([...this.agents.keys()].flatMap((id) => [...this.wantedBy(id).keys()].map((stackId) => `${id} ${stackId}`)))
  }
}

const shares = (a: ReadonlySet<string>, b: ReadonlySet<string>) => [...a].some((one) => b.has(one))
