// What the broker wants of each stack, newest first: the stacks to run, and those on their way out. It acts on nothing; whoever
// wants to know what to do with a stack asks for its level.
import { type DigestLine, digestText } from '@brokkr/contract/digest.ts'
import type { Drift } from '@brokkr/contract/stack.ts'
import type { StackId } from '@brokkr/contract/wire.ts'
import { type HeldObject, sha256 } from './held-object.ts'

export interface WantedStack {
  readonly stackId: StackId
  readonly stackName: string
  readonly rev: number
  readonly drift: Drift
  /** What the digest says of the stack: the object the broker wants, also when its content could not be sent. */
  readonly line: DigestLine['object']
  /** What is to run; null: change nothing. */
  readonly object: HeldObject | null
}
/** undecided: told by a list, so the guard must agree first · held: the guard did not · decided: to be carried out. */
export type Decision = 'undecided' | 'held' | 'decided'
export interface LeavingStack {
  readonly stackId: StackId
  readonly rev: number
  /** absent: a complete list did not mention it. */
  readonly reason: 'untargeted' | 'stack_deleted' | 'absent'
  readonly decision: Decision
  /** What ran until now, and runs on while nothing is decided. */
  readonly last: WantedStack | null
}

export type Level =
  | { readonly do: 'run'; readonly stack: WantedStack; readonly object: HeldObject; readonly isHeld: boolean }
  | { readonly do: 'remove'; readonly stackId: StackId; readonly rev: number; readonly marker: HeldObject | null }
  /** Removal is held back, and what runs is not known to us. */
  | { readonly do: 'hold'; readonly stackId: StackId; readonly rev: number }
  | { readonly do: 'nothing' }

export type Taken = 'news' | 'same' | 'older'

export class Levels {
  readonly wanted = new Map<StackId, WantedStack>()
  readonly leaving = new Map<StackId, LeavingStack>()

  get isEmpty(): boolean {
    return this.wanted.size === 0 && this.leaving.size === 0
  }

  put(stack: WantedStack): Taken {
    const known = this.wanted.get(stack.stackId)
    if (stack.rev < this.#revOf(stack.stackId)) return 'older'
    this.leaving.delete(stack.stackId)
    this.wanted.set(stack.stackId, stack)
    // A name is nothing to act on: what the cluster keeps of a stack has none, and a restart would look at every stack twice.
    return known && isSame(known, stack) ? 'same' : 'news'
  }

  /** The stack counts with what the broker names, and what runs stays: what we know of it, or `before`. */
  skip(stackId: StackId, rev: number, line: NonNullable<DigestLine['object']>, before?: WantedStack): Taken {
    const known = this.wanted.get(stackId) ?? this.leaving.get(stackId)?.last ?? before
    const { stackName = '', drift = 'heal', object = null } = known ?? {}
    return this.put({ stackId, stackName, rev, drift, line, object })
  }

  remove(stackId: StackId, rev: number, reason: LeavingStack['reason'], decision: Decision): Taken {
    if (rev < this.#revOf(stackId)) return 'older'
    const before = this.leaving.get(stackId)
    if (before?.decision === 'decided') return 'same'
    this.leaving.set(stackId, { stackId, rev, reason, decision, last: this.wanted.get(stackId) ?? before?.last ?? null })
    this.wanted.delete(stackId)
    return 'news'
  }

  /** The guard's answer. What was put or removed meanwhile is no longer the guard's business. */
  decide(stackId: StackId, decision: Exclude<Decision, 'undecided'>): boolean {
    const leaving = this.leaving.get(stackId)
    if (!leaving || leaving.decision === 'decided') return false
    this.leaving.set(stackId, { ...leaving, decision })
    return true
  }

  /** The removal is done. */
  forget(stackId: StackId): void {
    if (this.leaving.get(stackId)?.decision === 'decided') this.leaving.delete(stackId)
  }

  level(stackId: StackId): Level {
    const wanted = this.wanted.get(stackId)
    const leaving = this.leaving.get(stackId)
    if (leaving?.decision === 'decided') return { do: 'remove', stackId, rev: leaving.rev, marker: null }
    const isHeld = leaving?.decision === 'held'
    const stack = wanted ?? leaving?.last
    if (stack?.object?.isMarker && !leaving) return { do: 'remove', stackId, rev: stack.rev, marker: stack.object }
    if (stack?.object && !stack.object.isMarker) return { do: 'run', stack, object: stack.object, isHeld }
    return isHeld ? { do: 'hold', stackId, rev: leaving.rev } : { do: 'nothing' }
  }

  /** Count and digest of the wanted set, as the broker makes them of its own. */
  summary(): { count: number; digest: string } {
    const lines = [...this.wanted.values()].map(({ stackId, rev, line }) => ({ stackId, rev, object: line }))
    return { count: lines.length, digest: sha256(digestText(lines)) }
  }

  #revOf(stackId: StackId): number {
    return this.wanted.get(stackId)?.rev ?? this.leaving.get(stackId)?.rev ?? 0
  }
}

const isSame = (a: WantedStack, b: WantedStack): boolean =>
  a.rev === b.rev && a.drift === b.drift && isSameObject(a.line, b.line) && isSameObject(a.object, b.object)

type Named = { readonly id: string; readonly checksum: string } | null
/** By content too: objects never change, so another checksum under the same id is damage, and the later word mends it. */
const isSameObject = (a: Named, b: Named): boolean => a?.id === b?.id && a?.checksum === b?.checksum
