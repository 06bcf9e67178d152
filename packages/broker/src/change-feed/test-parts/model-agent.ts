// An agent as far as the feed is concerned, by the rules of the wire and nothing of the agent's code: a map, the cursor that covers
// it, reconnecting for ever. Whatever the stream does against its rules is noted as a fault.
import { createHash } from 'node:crypto'
import { digestText } from '@brokkr/contract/feed/digest.ts'
import type { Frame, FrameOf } from '@brokkr/contract/feed/stream.ts'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { readStream, type StreamReader } from '@brokkr/testing/stream-reader.ts'
import type { WantedStack } from './model.ts'

type Held = WantedStack & { readonly checksum: string | null }
/** What a state file would hold: a restart begins here. */
export interface Saved {
  readonly cursor: string | null
  readonly epoch: string | null
  readonly map: ReadonlyMap<string, Held>
}
export const nothingSaved: Saved = { cursor: null, epoch: null, map: new Map() }

export interface ModelAgentOptions {
  readonly id: string
  readonly pak: string
  /** Where to connect next; asked before each attempt. */
  readonly url: () => string
  readonly from?: Saved
}

export class ModelAgent {
  readonly id: string
  readonly faults: string[] = []
  /** Stacks that a `del` or a complete snapshot took from it. The news may come before whoever made the change hears of its commit. */
  readonly toldGone = new Set<string>()
  /** Every state it could have been restarted from. */
  readonly history: Saved[] = []
  readonly #options: ModelAgentOptions
  #map: Map<string, Held>
  #saved: Saved
  #epoch: string | null
  #hello: FrameOf<'hello'> | null = null
  #listing: { readonly id: string; readonly map: Map<string, Held>; readonly gone: Set<string> } | null = null
  #stream: StreamReader | null = null
  #isPaused = false
  /** Counts connections: a frame of one that a crash left behind counts for nothing. */
  #turn = 0
  readonly #stopped = new AbortController()
  readonly #running: Promise<void>

  constructor(options: ModelAgentOptions) {
    this.id = options.id
    this.#options = options
    this.#saved = options.from ?? nothingSaved
    this.#map = new Map(this.#saved.map)
    this.#epoch = this.#saved.epoch
    this.#running = this.#run()
  }

  get wanted(): Map<string, WantedStack> {
    return new Map([...this.#map].map(([id, { rev, objectId }]) => [id, { rev, objectId }]))
  }

  cut(): void {
    this.#stream?.close()
  }

  pause(): void {
    this.#isPaused = true
    this.#stream?.pause()
  }

  resume(): void {
    this.#isPaused = false
    this.#stream?.resume()
  }

  /** The process dies: what is in memory is lost, what was saved with its cursor is not. */
  crash(): void {
    this.#turn += 1
    this.#stream?.close()
    this.#map = new Map(this.#saved.map)
    this.#epoch = this.#saved.epoch
  }

  async stop(): Promise<void> {
    this.#stopped.abort()
    this.resume()
    this.cut()
    await this.#running
  }

  async #run(): Promise<void> {
    while (!this.#stopped.signal.aborted) {
      this.#listing = null
      try {
        const { cursor } = this.#saved
        const turn = (this.#turn += 1)
        const stream = await readStream(this.#options.url(), {
          agentId: this.id,
          pak: this.#options.pak,
          ...(cursor === null ? {} : { cursor }),
          onFrame: (frame) => {
            if (turn === this.#turn) this.#take(frame)
          },
        })
        this.#stream = stream
        if (this.#isPaused) stream.pause()
        if (turn !== this.#turn || this.#stopped.signal.aborted) stream.close()
        if (stream.status === 400) this.faults.push(`cursor refused: ${cursor}`)
        await stream.ended
      } catch {
        // Nobody there, or cut while connecting: the next attempt.
      }
      this.#stream = null
      await systemClock.sleep(20, this.#stopped.signal).catch(() => undefined)
    }
  }

  #take(frame: Frame): void {
    if (frame.type === 'hello') this.#greet(frame)
    else if (frame.type === 'snapshot_begin') this.#listing = { id: frame.id, map: new Map(), gone: new Set() }
    else if (frame.type === 'put') this.#put(frame.stack_id, heldOf(frame))
    else if (frame.type === 'skip') this.#put(frame.stack_id, { rev: frame.rev, objectId: frame.object_id, checksum: frame.yaml_checksum })
    else if (frame.type === 'del') this.#del(frame)
    else if (frame.type === 'snapshot_end') this.#complete(frame)
    else if (frame.type === 'bookmark') this.#save(frame.cursor)
    else if (frame.type === 'bye' && frame.cursor !== null && this.#listing === null) this.#save(frame.cursor)
  }

  #greet(frame: FrameOf<'hello'>): void {
    this.#hello = frame
    if (frame.mode === 'resume' && frame.epoch !== this.#epoch) this.faults.push(`resumed across epochs: ${this.#epoch} → ${frame.epoch}`)
  }

  #put(stackId: string, held: Held): void {
    this.#listing?.map.set(stackId, held)
    if (this.#hello?.epoch !== this.#epoch && this.#epoch !== null) return
    const before = this.#map.get(stackId)
    if (before !== undefined && held.rev < before.rev) this.faults.push(`stack ${stackId} went back from ${before.rev} to ${held.rev}`)
    this.#map.set(stackId, held)
  }

  #del({ stack_id }: FrameOf<'del'>): void {
    this.toldGone.add(stack_id)
    if (this.#listing === null) this.#map.delete(stack_id)
    else this.#listing.gone.add(stack_id)
  }

  /** Only now is absence evidence. */
  #complete(frame: FrameOf<'snapshot_end'>): void {
    const { id, map, gone } = this.#listing!
    if (frame.id !== id) this.faults.push('a snapshot ended under another id')
    if (frame.count !== map.size || frame.digest !== digestOf(map)) this.faults.push(`snapshot of ${map.size} does not agree with its end`)
    for (const stackId of gone) if (map.has(stackId)) this.faults.push(`stack ${stackId} is wanted and gone in one snapshot`)
    for (const stackId of this.#map.keys()) if (!map.has(stackId)) this.toldGone.add(stackId)
    this.#map = new Map(map)
    this.#epoch = this.#hello!.epoch
    this.#listing = null
    this.#save(frame.cursor)
  }

  #save(cursor: string): void {
    if (this.#listing !== null) this.faults.push('a bookmark inside a snapshot')
    this.#saved = { cursor, epoch: this.#epoch, map: new Map(this.#map) }
    this.history.push(this.#saved)
  }
}

/** The checksum is of the content that came, never copied from the frame. */
const heldOf = ({ rev, object }: FrameOf<'put'>): Held => ({
  rev,
  objectId: object?.id ?? null,
  checksum: object === null ? null : createHash('sha256').update(object.yaml_content!).digest('hex'),
})

function digestOf(map: ReadonlyMap<string, Held>): string {
  const lines = [...map].map(([stackId, { rev, objectId, checksum }]) => ({
    stackId,
    rev,
    object: objectId === null ? null : { id: objectId, checksum: checksum! },
  }))
  return createHash('sha256').update(digestText(lines)).digest('hex')
}
