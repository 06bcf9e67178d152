// What stacks should want, in a few plain lines over maps: the held object, else the newest one. It knows nothing of rows or frames.

export interface ModelObject {
  readonly id: string
  readonly sequence: number
  readonly text: string
  readonly isMarker: boolean
}
export interface ModelStack {
  /** Live ones, oldest first. */
  objects: ModelObject[]
  held: ModelObject | null
  rev: number
  isDeleted: boolean
  /** Explicit targets, and those that an undelete brings back. */
  readonly agents: Set<string>
  noted: { readonly wanted: ModelObject | null; readonly agents: readonly string[] }
  readonly acknowledged: Set<string>
}

export class BoundsModel {
  readonly stacks = new Map<string, ModelStack>()

  addStack(id: string): void {
    const noted = { wanted: null, agents: [] }
    this.stacks.set(id, { objects: [], held: null, rev: 0, isDeleted: false, agents: new Set(), noted, acknowledged: new Set() })
  }

  wanted(id: string): ModelObject | null {
    const { held, objects } = this.stacks.get(id)!
    return held ?? objects.at(-1) ?? null
  }

  /** What an agent of the stack can tell apart. */
  key(id: string): string {
    return `${this.stacks.get(id)!.rev} ${this.wanted(id)?.id}`
  }

  submit(id: string, object: ModelObject, how: 'queue' | 'hold'): void {
    const stack = this.stacks.get(id)!
    stack.objects.push(object)
    stack.rev = object.sequence
    if (how === 'hold') stack.held = object
  }

  /** A bound that moves takes a number, and never moves back. */
  bound(id: string, held: ModelObject | null): void {
    const stack = this.stacks.get(id)!
    const before = this.wanted(id)
    stack.held = held
    const after = this.wanted(id)
    if (after?.id !== before?.id) stack.rev += 1
    if (after !== null && before !== null && after.sequence < before.sequence) throw new Error('the bound moved back')
  }

  delete(id: string): void {
    const stack = this.stacks.get(id)!
    stack.noted = { wanted: this.wanted(id), agents: [...stack.agents] }
    stack.isDeleted = true
    stack.held = null
    stack.rev += 1
    // Its deletion marker, which only agents that remove the stack read; its id is read when the stack returns.
    stack.objects = []
    stack.agents.clear()
  }

  /** `newest`: the object that the database shows now; its text must be the noted one. */
  undelete(id: string, newest: Pick<ModelObject, 'id' | 'sequence'>): void {
    const stack = this.stacks.get(id)!
    const { wanted, agents } = stack.noted
    stack.isDeleted = false
    stack.rev += 1
    const isMarker = wanted === null || wanted.isMarker
    if (!isMarker && newest.sequence !== stack.rev) throw new Error('an undelete takes one number')
    stack.objects = [{ ...newest, isMarker, text: isMarker ? '' : wanted.text }]
    for (const agent of agents) stack.agents.add(agent)
  }
}
