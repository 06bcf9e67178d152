// Desired state of each stack: deployment objects to run, and stacks to remove. Holds data only; getAction returns the action for a
// stack.
import { type DigestLine, digestText } from '@brokkr/contract/feed/digest.ts'
import type { Drift } from '@brokkr/contract/stacks/stack.ts'
import type { StackId } from '@brokkr/contract/wire.ts'
import { type CachedManifest, sha256 } from './cached-manifest.ts'

export interface DesiredStack {
  readonly stackId: StackId
  readonly stackName: string
  readonly rev: number
  readonly drift: Drift
  /** The object of this stack in the broker's digest, also if its content could not be sent. */
  readonly digestEntry: DigestLine['object']
  /** The object to run; null: no change. */
  readonly object: CachedManifest | null
}
/** undecided: absent from a snapshot, the prune guard decides. held: the guard refused. decided: to be removed. */
export type Decision = 'undecided' | 'held' | 'decided'
export interface PendingRemoval {
  readonly stackId: StackId
  readonly rev: number
  /** absent: missing in a verified snapshot. */
  readonly reason: 'untargeted' | 'stack_deleted' | 'absent'
  readonly decision: Decision
  /** The stack before; it keeps running until the removal is decided. */
  readonly last: DesiredStack | null
}

export type DesiredAction =
  | { readonly do: 'run'; readonly stack: DesiredStack; readonly object: CachedManifest; readonly isHeld: boolean }
  | { readonly do: 'remove'; readonly stackId: StackId; readonly rev: number; readonly marker: CachedManifest | null }
  /** Removal is held, and the applied object is unknown. */
  | { readonly do: 'hold'; readonly stackId: StackId; readonly rev: number }
  | { readonly do: 'nothing' }

export type ChangeKind = 'changed' | 'same' | 'older'

export class DesiredState {
  readonly stacks = new Map<StackId, DesiredStack>()
  readonly removals = new Map<StackId, PendingRemoval>()

  get isEmpty(): boolean {
    return this.stacks.size === 0 && this.removals.size === 0
  }

  put(stack: DesiredStack): ChangeKind {
    const before = this.stacks.get(stack.stackId)
    if (stack.rev < this.#getRev(stack.stackId)) return 'older'
    this.removals.delete(stack.stackId)
    this.stacks.set(stack.stackId, stack)
    // A changed name needs no attempt: the cluster does not store it, and a restart would reconcile every stack twice.
    return before && isSame(before, stack) ? 'same' : 'changed'
  }

  /** Records the broker's object in the digest and keeps the running object: that of this state, or of `before`. */
  skip(stackId: StackId, rev: number, digestEntry: NonNullable<DigestLine['object']>, before?: DesiredStack): ChangeKind {
    const running = this.stacks.get(stackId) ?? this.removals.get(stackId)?.last ?? before
    const { stackName = '', drift = 'heal', object = null } = running ?? {}
    return this.put({ stackId, stackName, rev, drift, digestEntry, object })
  }

  remove(stackId: StackId, rev: number, reason: PendingRemoval['reason'], decision: Decision): ChangeKind {
    if (rev < this.#getRev(stackId)) return 'older'
    const before = this.removals.get(stackId)
    if (before?.decision === 'decided') return 'same'
    this.removals.set(stackId, { stackId, rev, reason, decision, last: this.stacks.get(stackId) ?? before?.last ?? null })
    this.stacks.delete(stackId)
    return 'changed'
  }

  /** Decision of the prune guard. Ignored for stacks that changed meanwhile. */
  decide(stackId: StackId, decision: Exclude<Decision, 'undecided'>): boolean {
    const removal = this.removals.get(stackId)
    if (!removal || removal.decision === 'decided') return false
    this.removals.set(stackId, { ...removal, decision })
    return true
  }

  /** The removal is complete. */
  forget(stackId: StackId): void {
    if (this.removals.get(stackId)?.decision === 'decided') this.removals.delete(stackId)
  }

  getAction(stackId: StackId): DesiredAction {
    const desired = this.stacks.get(stackId)
    const removal = this.removals.get(stackId)
    if (removal?.decision === 'decided') return { do: 'remove', stackId, rev: removal.rev, marker: null }
    const isHeld = removal?.decision === 'held'
    const stack = desired ?? removal?.last
    if (stack?.object?.isDeletionMarker && !removal) return { do: 'remove', stackId, rev: stack.rev, marker: stack.object }
    if (stack?.object && !stack.object.isDeletionMarker) return { do: 'run', stack, object: stack.object, isHeld }
    return isHeld ? { do: 'hold', stackId, rev: removal.rev } : { do: 'nothing' }
  }

  /** Count and digest of the desired state, computed like the broker's. */
  summary(): { count: number; digest: string } {
    const entries = [...this.stacks.values()].map(({ stackId, rev, digestEntry }) => ({ stackId, rev, object: digestEntry }))
    return { count: entries.length, digest: sha256(digestText(entries)) }
  }

  #getRev(stackId: StackId): number {
    return this.stacks.get(stackId)?.rev ?? this.removals.get(stackId)?.rev ?? 0
  }
}

const isSame = (a: DesiredStack, b: DesiredStack): boolean =>
  a.rev === b.rev && a.drift === b.drift && isSameObject(a.digestEntry, b.digestEntry) && isSameObject(a.object, b.object)

type ObjectVersion = { readonly id: string; readonly checksum: string } | null
/** Compares the checksum too: objects are immutable, so another checksum of the same id is corruption that the later one repairs. */
const isSameObject = (a: ObjectVersion, b: ObjectVersion): boolean => a?.id === b?.id && a?.checksum === b?.checksum
