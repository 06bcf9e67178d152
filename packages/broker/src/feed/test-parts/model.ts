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
