// One stream's frames, in order, on their way into the map. No input or output: it says what must be fetched and who must look,
// and the caller does it. A frame that contradicts itself throws BrokenFrame; the stream is then worth nothing more.
import type { DigestLine } from '@brokkr/contract/digest.ts'
import type { Frame, FrameOf, WantedObject } from '@brokkr/contract/stream.ts'
import type { StackId } from '@brokkr/contract/wire.ts'
import { CursorGate } from './cursor-gate.ts'
import { BrokenFrame, type Effect } from './effect.ts'
import { type HeldObject, holdObject } from './held-object.ts'
import { Levels, type Taken } from './levels.ts'
import { Snapshot, type Verified } from './snapshot.ts'
import { isOtherHistory, type WantedMap } from './wanted-map.ts'

/** A put whose content is still to come, and the list it is part of. */
interface Waiting {
  readonly frame: FrameOf<'put'>
  readonly object: WantedObject
  readonly list: Snapshot | null
}

const protocol = 1
const snapshotGate = 'snapshot'

export class Connection {
  readonly #map: WantedMap
  readonly #hasShown: boolean
  readonly #gate: CursorGate
  readonly #waiting = new Map<string, Waiting[]>()
  #target: Levels
  #epoch: string | null = null
  #boot: string | null = null
  #isNewHistory = false
  #snapshot: Snapshot | null = null

  /** `hasShown`: the broker was given a cursor, and would not go on in the epoch of one that it cannot have issued. */
  constructor(map: WantedMap, hasShown = false) {
    this.#map = map
    this.#hasShown = hasShown
    this.#target = map.levels
    this.#gate = new CursorGate((cursor) => {
      map.cursor = cursor
    })
  }

  take(frame: Frame): Effect[] {
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
        this.#gate.offer(frame.cursor)
        return []
      case 'bye':
        if (frame.cursor !== null) this.#gate.offer(frame.cursor)
        return [{ do: 'bye', reason: frame.reason, retryAfterMs: frame.retry_after_ms }]
      case 'look':
        return [{ do: 'ask', what: frame.what, spreadMs: frame.spread_ms }]
      case 'ping':
      // Pointers belong to watches; on a stream they say nothing.
      case 'change':
        return []
      default:
        return frame satisfies never
    }
  }

  /** The content that was asked for by `fetch`; its checksum is the one that was named. */
  content(objectId: string, text: string): Effect[] {
    const waiting = this.#waiting.get(objectId) ?? []
    this.#waiting.delete(objectId)
    const effects = waiting.flatMap(({ frame, object, list }) => this.#held(frame, holdObject(identityOf(object), text), list))
    this.#gate.done(objectId)
    return [...effects, ...this.#settle()]
  }

  #hello(frame: FrameOf<'hello'>): Effect[] {
    if (frame.protocol !== protocol) throw new BrokenFrame(`the broker speaks protocol ${frame.protocol}, this agent ${protocol}`)
    if (this.#epoch !== null) throw new BrokenFrame('a second hello')
    const isNewEpoch = frame.epoch !== this.#map.epoch
    if (frame.mode === 'resume' && isNewEpoch) throw new BrokenFrame('resumed in another epoch than the cursor belongs to')
    this.#epoch = frame.epoch
    this.#boot = frame.boot ?? null
    this.#isNewHistory = isOtherHistory(this.#map, { epoch: frame.epoch, boot: this.#boot }, this.#hasShown)
    if (frame.mode === 'resume') this.#map.boot = this.#boot
    // The map of another history stays as it is until a complete list of the new one is here.
    const isReplaced = isNewEpoch || this.#isNewHistory || this.#map.isDoubted
    if (isReplaced && !this.#map.levels.isEmpty) this.#target = new Levels()
    return [{ do: 'session', session: frame.session, isNewEpoch: isNewEpoch || this.#map.isDoubted }]
  }

  #begin(frame: FrameOf<'snapshot_begin'>): Effect[] {
    this.#snapshot = new Snapshot(frame)
    this.#gate.begin(snapshotGate)
    return []
  }

  #put(frame: FrameOf<'put'>): Effect[] {
    const { object } = frame
    const list = this.#listing
    if (object === null) return this.#held(frame, null, list)
    if (object.yaml_content !== undefined)
      return this.#held(frame, checked(object, holdObject(identityOf(object), object.yaml_content)), list)
    const path = `/api/v1/deployment-objects/${object.id}`
    if (object.content_url !== path) throw new BrokenFrame('a put with neither content nor the address of it')
    const known = this.#knownContent(frame.stack_id, object)
    return known ? this.#held(frame, known, list) : this.#later({ frame, object, list }, path)
  }

  /** Objects never change, so what we hold under the id need not come again. */
  #knownContent(stackId: StackId, { id, yaml_checksum }: WantedObject): HeldObject | null {
    const held = this.#map.levels.wanted.get(stackId)?.object
    return held?.id === id && held.checksum === yaml_checksum ? held : null
  }

  #later(waiting: Waiting, path: string): Effect[] {
    const { id, yaml_checksum } = waiting.object
    this.#mention(waiting.frame.stack_id, null, waiting.list)
    this.#gate.begin(id)
    const others = this.#waiting.get(id)
    this.#waiting.set(id, [...(others ?? []), waiting])
    return others ? [] : [{ do: 'fetch', content: { objectId: id, checksum: yaml_checksum, path } }]
  }

  #held(frame: FrameOf<'put'>, object: HeldObject | null, list: Snapshot | null): Effect[] {
    const { stack_id: stackId, stack_name: stackName, rev, drift } = frame
    const line = object && { id: object.id, checksum: object.checksum }
    this.#mention(stackId, { stackId, rev, object: line }, list)
    return this.#told(stackId, this.#target.put({ stackId, stackName, rev, drift, line, object }))
  }

  #skip({ stack_id: stackId, rev, object_id: id, yaml_checksum: checksum }: FrameOf<'skip'>): Effect[] {
    const line = { id, checksum }
    this.#mention(stackId, { stackId, rev, object: line }, this.#listing)
    return this.#told(stackId, this.#target.skip(stackId, rev, line, this.#map.levels.wanted.get(stackId)))
  }

  #del(frame: FrameOf<'del'>): Effect[] {
    const { stack_id: stackId, rev, reason } = frame
    const list = this.#listing
    if (list) {
      list.dels.set(stackId, frame)
      return []
    }
    this.#snapshot?.touched.add(stackId)
    return this.#told(stackId, this.#target.remove(stackId, rev, reason, 'decided'))
  }

  #end(frame: FrameOf<'snapshot_end'>): Effect[] {
    if (this.#listing?.id !== frame.id) throw new BrokenFrame('the end of a list that did not begin')
    this.#listing.finish(frame)
    return this.#settle()
  }

  /** Content of a listed stack may come after the end of its list, and then still belongs to it. */
  #mention(stackId: StackId, line: DigestLine | null, list: Snapshot | null): void {
    if (list) list.mention(stackId, line)
    else this.#snapshot?.touched.add(stackId)
  }

  get #listing(): Snapshot | null {
    return this.#snapshot?.end === null ? this.#snapshot : null
  }

  #told(stackId: StackId, taken: Taken): Effect[] {
    if (taken !== 'news') return [{ do: 'ignored', reason: taken }]
    return this.#target === this.#map.levels ? [{ do: 'look', stackId }] : []
  }

  /** Once the list has ended and all its content is here: does it agree, and what follows from it? */
  #settle(): Effect[] {
    const snapshot = this.#snapshot
    if (!snapshot?.end || snapshot.isWaiting) return []
    this.#snapshot = null
    if (!snapshot.isComplete(this.#map.levels.summary())) return [{ do: 'unverified' }]
    const history = { epoch: this.#epoch, boot: this.#boot, isNewHistory: this.#isNewHistory }
    const list = snapshot.verified(this.#map.levels.wanted.keys(), history)
    const looks = this.#adopt(snapshot, list)
    this.#map.cursor = snapshot.end.cursor
    this.#gate.done(snapshotGate)
    return [...looks.map((stackId) => ({ do: 'look', stackId }) as const), { do: 'verified', list }]
  }

  #adopt(snapshot: Snapshot, { mentioned, dels }: Verified): StackId[] {
    const isOther = this.#target !== this.#map.levels && !snapshot.end?.unchanged
    const looks = isOther ? this.#map.replace(this.#target) : []
    this.#map.epoch = this.#epoch
    this.#map.boot = this.#boot
    this.#map.isDoubted = false
    this.#target = this.#map.levels
    for (const stack of this.#target.wanted.values()) {
      if (!mentioned.has(stack.stackId)) this.#target.remove(stack.stackId, stack.rev, 'absent', 'undecided')
    }
    for (const { stack_id, rev, reason } of snapshot.dels.values())
      if (dels.has(stack_id)) this.#target.remove(stack_id, rev, reason, 'undecided')
    return looks
  }
}

const identityOf = ({ id, sequence_id, is_deletion_marker }: WantedObject) => ({
  id,
  sequenceId: sequence_id,
  isMarker: is_deletion_marker,
})

function checked(frame: WantedObject, held: HeldObject): HeldObject {
  if (held.checksum === frame.yaml_checksum) return held
  throw new BrokenFrame(`the content of object ${frame.id} does not have the checksum that was named`)
}
