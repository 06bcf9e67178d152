// Applies the frames of one stream, in order, to the sync state. No I/O: it returns effects for the caller. An inconsistent frame throws
// BrokenFrame and ends the stream.
import type { DigestLine } from '@brokkr/contract/feed/digest.ts'
import type { DesiredObject, Frame, FrameOf } from '@brokkr/contract/feed/stream.ts'
import type { StackId } from '@brokkr/contract/wire.ts'
import { type CachedManifest, cacheManifest } from '../desired-state/cached-manifest.ts'
import { type ChangeKind, DesiredState } from '../desired-state/desired-state.ts'
import { Snapshot, type VerifiedSnapshot } from '../desired-state/snapshot.ts'
import { isNewEpoch, type SyncState } from '../desired-state/sync-state.ts'
import { CursorCommitter } from './cursor-committer.ts'
import { BrokenFrame, type Effect } from './effect.ts'

/** A put whose content is still being fetched, and its snapshot. */
interface PendingPut {
  readonly frame: FrameOf<'put'>
  readonly object: DesiredObject
  readonly snapshot: Snapshot | null
  /** Number of the frame among those of its stack. */
  readonly nth: number
}

const protocol = 1
const snapshotKey = 'snapshot'

export class FrameProcessor {
  readonly #state: SyncState
  readonly #requestHadCursor: boolean
  readonly #committer: CursorCommitter
  readonly #pendingPuts = new Map<string, PendingPut[]>()
  /** Frames of each stack on this connection. */
  readonly #frameCounts = new Map<StackId, number>()
  #workingState: DesiredState
  #epoch: string | null = null
  #boot: string | null = null
  #isNewEpoch = false
  #snapshot: Snapshot | null = null

  /** `requestHadCursor`: the request contained a cursor, so the broker has already compared its epoch. */
  constructor(state: SyncState, requestHadCursor = false) {
    this.#state = state
    this.#requestHadCursor = requestHadCursor
    this.#workingState = state.desired
    this.#committer = new CursorCommitter((cursor) => {
      state.cursor = cursor
    })
  }

  process(frame: Frame): Effect[] {
    if (this.#epoch === null && frame.type !== 'hello') throw new BrokenFrame(`the first frame is ${frame.type}, not hello`)
    switch (frame.type) {
      case 'hello':
        return this.#hello(frame)
      case 'snapshot_begin':
        return this.#begin(frame)
      case 'put':
        return this.#put(frame)
      case 'skip':
        return this.#skip(frame)
      case 'del':
        return this.#del(frame)
      case 'snapshot_end':
        return this.#end(frame)
      case 'bookmark':
        this.#committer.offer(frame.cursor)
        return []
      case 'bye':
        if (frame.cursor !== null) this.#committer.offer(frame.cursor)
        return [{ do: 'bye', reason: frame.reason, retryAfterMs: frame.retry_after_ms }]
      case 'look':
        return [{ do: 'refresh', what: frame.what, spreadMs: frame.spread_ms }]
      case 'ping':
      // Change pointers belong to watches and are ignored on a stream.
      case 'change':
        return []
      default:
        return frame satisfies never
    }
  }

  /** Adds content requested by `fetch`; its checksum is already verified. */
  addContent(objectId: string, text: string): Effect[] {
    const pending = this.#pendingPuts.get(objectId) ?? []
    this.#pendingPuts.delete(objectId)
    const effects = pending.flatMap(({ frame, object, snapshot, nth }) => {
      const content = cacheManifest(toObjectIdentity(object), text)
      // A later frame of the stack has replaced this one; it only counts in the list of its snapshot.
      if (this.#frameCounts.get(frame.stack_id) !== nth) return this.#recordContent(frame, content, snapshot)
      return this.#applyPut(frame, content, snapshot)
    })
    this.#committer.done(objectId)
    return [...effects, ...this.#completeSnapshot()]
  }

  #hello(frame: FrameOf<'hello'>): Effect[] {
    if (frame.protocol !== protocol) throw new BrokenFrame(`the broker speaks protocol ${frame.protocol}, this agent ${protocol}`)
    if (this.#epoch !== null) throw new BrokenFrame('received a second hello frame')
    const isOtherEpoch = frame.epoch !== this.#state.epoch
    if (frame.mode === 'resume' && isOtherEpoch) throw new BrokenFrame('the broker resumed in another epoch')
    this.#epoch = frame.epoch
    this.#boot = frame.boot ?? null
    this.#isNewEpoch = isNewEpoch(this.#state, { epoch: frame.epoch, boot: this.#boot }, this.#requestHadCursor)
    if (frame.mode === 'resume') this.#state.boot = this.#boot
    // The state of another epoch stays until the new snapshot is complete.
    const isReplaced = isOtherEpoch || this.#isNewEpoch || this.#state.hasDigestMismatch
    if (isReplaced && !this.#state.desired.isEmpty) this.#workingState = new DesiredState()
    return [{ do: 'session', session: frame.session, isStateReplaced: isOtherEpoch || this.#state.hasDigestMismatch }]
  }

  #begin(frame: FrameOf<'snapshot_begin'>): Effect[] {
    this.#snapshot = new Snapshot(frame)
    this.#committer.begin(snapshotKey)
    return []
  }

  #put(frame: FrameOf<'put'>): Effect[] {
    const { object } = frame
    const snapshot = this.#openSnapshot
    const nth = this.#countFrame(frame.stack_id)
    if (object === null) return this.#applyPut(frame, null, snapshot)
    if (object.yaml_content !== undefined)
      return this.#applyPut(frame, requireChecksum(object, cacheManifest(toObjectIdentity(object), object.yaml_content)), snapshot)
    const path = `/api/v1/deployment-objects/${object.id}`
    if (object.content_url !== path) throw new BrokenFrame('put frame without yaml_content and with an unexpected content_url')
    const cached = this.#findContent(frame.stack_id, object)
    return cached ? this.#applyPut(frame, cached, snapshot) : this.#deferPut({ frame, object, snapshot, nth }, path)
  }

  /** Deployment objects are immutable, so cached content of the same id is reused. */
  #findContent(stackId: StackId, { id, yaml_checksum }: DesiredObject): CachedManifest | null {
    const cached = this.#state.desired.stacks.get(stackId)?.object
    return cached?.id === id && cached.checksum === yaml_checksum ? cached : null
  }

  #deferPut(pending: PendingPut, path: string): Effect[] {
    const { id, yaml_checksum } = pending.object
    this.#recordListed(pending.frame.stack_id, null, pending.snapshot)
    this.#committer.begin(id)
    const others = this.#pendingPuts.get(id)
    this.#pendingPuts.set(id, [...(others ?? []), pending])
    return others ? [] : [{ do: 'fetch', content: { objectId: id, checksum: yaml_checksum, path } }]
  }

  #applyPut(frame: FrameOf<'put'>, object: CachedManifest | null, snapshot: Snapshot | null): Effect[] {
    const { stack_id: stackId, stack_name: stackName, rev, drift } = frame
    const digestEntry = object && { id: object.id, checksum: object.checksum }
    this.#recordContent(frame, object, snapshot)
    return this.#toEffects(stackId, this.#workingState.put({ stackId, stackName, rev, drift, digestEntry, object }))
  }

  /** The effects of a put that changes nothing any more. */
  #recordContent({ stack_id: stackId, rev }: FrameOf<'put'>, object: CachedManifest | null, snapshot: Snapshot | null): Effect[] {
    this.#recordListed(stackId, { stackId, rev, object: object && { id: object.id, checksum: object.checksum } }, snapshot)
    return [{ do: 'ignored', reason: 'older' }]
  }

  #countFrame(stackId: StackId): number {
    const nth = (this.#frameCounts.get(stackId) ?? 0) + 1
    this.#frameCounts.set(stackId, nth)
    return nth
  }

  #skip({ stack_id: stackId, rev, object_id: id, yaml_checksum: checksum }: FrameOf<'skip'>): Effect[] {
    this.#countFrame(stackId)
    const digestEntry = { id, checksum }
    this.#recordListed(stackId, { stackId, rev, object: digestEntry }, this.#openSnapshot)
    return this.#toEffects(stackId, this.#workingState.skip(stackId, rev, digestEntry, this.#state.desired.stacks.get(stackId)))
  }

  #del(frame: FrameOf<'del'>): Effect[] {
    const { stack_id: stackId, rev, reason } = frame
    const snapshot = this.#openSnapshot
    this.#countFrame(stackId)
    if (snapshot) {
      snapshot.removals.set(stackId, frame)
      return []
    }
    this.#snapshot?.changedAfterEnd.add(stackId)
    return this.#toEffects(stackId, this.#workingState.remove(stackId, rev, reason, 'decided'))
  }

  #end(frame: FrameOf<'snapshot_end'>): Effect[] {
    if (this.#openSnapshot?.id !== frame.id) throw new BrokenFrame('snapshot_end without snapshot_begin')
    this.#openSnapshot.finish(frame)
    return this.#completeSnapshot()
  }

  /** Content of a listed stack can arrive after the end of its snapshot and still belongs to it. */
  #recordListed(stackId: StackId, entry: DigestLine | null, snapshot: Snapshot | null): void {
    if (snapshot) snapshot.recordListed(stackId, entry)
    else this.#snapshot?.changedAfterEnd.add(stackId)
  }

  get #openSnapshot(): Snapshot | null {
    return this.#snapshot?.end === null ? this.#snapshot : null
  }

  #toEffects(stackId: StackId, change: ChangeKind): Effect[] {
    if (change !== 'changed') return [{ do: 'ignored', reason: change }]
    return this.#workingState === this.#state.desired ? [{ do: 'reconcile', stackId }] : []
  }

  /** When the snapshot has ended and all its content is here: verifies it and applies its removals. */
  #completeSnapshot(): Effect[] {
    const snapshot = this.#snapshot
    if (!snapshot?.end || snapshot.isWaiting) return []
    this.#snapshot = null
    if (!snapshot.isComplete(this.#state.desired.summary())) return [{ do: 'unverified' }]
    const origin = { epoch: this.#epoch, boot: this.#boot, isNewEpoch: this.#isNewEpoch }
    const verified = snapshot.toVerified(this.#state.desired.stacks.keys(), origin)
    const changedStacks = this.#applySnapshot(snapshot, verified)
    this.#state.cursor = snapshot.end.cursor
    this.#committer.done(snapshotKey)
    return [...changedStacks.map((stackId) => ({ do: 'reconcile', stackId }) as const), { do: 'verified', snapshot: verified }]
  }

  #applySnapshot(snapshot: Snapshot, { listed, removals }: VerifiedSnapshot): StackId[] {
    const isReplacement = this.#workingState !== this.#state.desired && !snapshot.end?.unchanged
    const changedStacks = isReplacement ? this.#state.replace(this.#workingState) : []
    this.#state.epoch = this.#epoch
    this.#state.boot = this.#boot
    this.#state.hasDigestMismatch = false
    this.#workingState = this.#state.desired
    for (const stack of this.#workingState.stacks.values()) {
      if (!listed.has(stack.stackId)) this.#workingState.remove(stack.stackId, stack.rev, 'absent', 'undecided')
    }
    for (const { stack_id, rev, reason } of snapshot.removals.values())
      if (removals.has(stack_id)) this.#workingState.remove(stack_id, rev, reason, 'undecided')
    return changedStacks
  }
}

const toObjectIdentity = ({ id, sequence_id, is_deletion_marker }: DesiredObject) => ({
  id,
  sequenceId: sequence_id,
  isDeletionMarker: is_deletion_marker,
})

function requireChecksum(frame: DesiredObject, cached: CachedManifest): CachedManifest {
  if (cached.checksum === frame.yaml_checksum) return cached
  throw new BrokenFrame(`manifest checksum mismatch for deployment object ${frame.id}`)
}
