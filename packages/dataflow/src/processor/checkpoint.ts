// The flow's checkpoint as this process holds it: taken with a higher epoch at the start, written at most so often, given up as soon
// as another has taken it. Counters are added, not overwritten, so that several readers of one group may share them.
import {
  type Checkpoint,
  type CheckpointHolder,
  checkpointKey,
  checkpointVersion,
  progressKey,
  readCheckpoint,
  SavedProgress,
} from '@brokkr/contract/dataflow/checkpoint.ts'
import type { JsonObject } from '@brokkr/contract/dataflow/json.ts'
import type { Counters } from '@brokkr/contract/dataflow/progress.ts'
import { type CheckpointStore, StoreConflict } from './checkpoint-store.ts'

/** Another processor holds the flow: stop, write nothing. */
export class Fenced extends Error {
  override name = 'Fenced'
}

export interface CheckpointOptions {
  readonly pod: string
  readonly uid: string
  readonly sourceType: string
  /** Readers of one group do not fence each other. */
  readonly isShared: boolean
}

export interface SavedState {
  readonly state: JsonObject | undefined
  readonly resetId?: string | undefined
  readonly rewindId?: string | undefined
}

type Added = Pick<Counters, 'readCount' | 'processedCount' | 'writtenCount' | 'droppedCount' | 'errorCount'>

export class FlowCheckpoint {
  readonly #store: CheckpointStore
  readonly #options: CheckpointOptions
  #version = ''
  #checkpoint: Checkpoint = { v: checkpointVersion }
  #counters: Partial<Counters> = {}
  /** Of what was counted since the start, how much is saved. */
  #added: Added = { readCount: 0, processedCount: 0, writtenCount: 0, droppedCount: 0, errorCount: 0 }
  #lastSaved = ''
  /** Once lost, never written again. */
  #fence: Fenced | undefined

  constructor(store: CheckpointStore, options: CheckpointOptions) {
    this.#store = store
    this.#options = options
  }

  get epoch(): number {
    return this.#checkpoint.holder?.epoch ?? 0
  }

  get applied(): { resetId: string | undefined; rewindId: string | undefined } {
    return { resetId: this.#checkpoint.resetId, rewindId: this.#checkpoint.rewindId }
  }

  /** What the source left. */
  get state(): JsonObject | undefined {
    return this.#checkpoint[this.#options.sourceType] as JsonObject | undefined
  }

  get counters(): Partial<Counters> {
    return this.#counters
  }

  /** A start always takes over: whoever held it before is fenced by the higher epoch. */
  async take(signal: AbortSignal): Promise<void> {
    for (;;) {
      await this.#load(signal)
      if (this.#options.isShared) return
      const holder = { pod: this.#options.pod, uid: this.#options.uid, epoch: this.epoch + 1 }
      const next = { ...this.#checkpoint, holder }
      try {
        this.#version = await this.#store.save({ [checkpointKey]: JSON.stringify(next) }, this.#version, signal)
        this.#checkpoint = next
        return
      } catch (error) {
        if (!(error instanceof StoreConflict)) throw error
      }
    }
  }

  async #load(signal: AbortSignal): Promise<void> {
    const { texts, version } = await this.#store.load(signal)
    this.#version = version
    this.#checkpoint = readCheckpoint(texts[checkpointKey]) ?? { v: checkpointVersion }
    this.#counters = readCounters(texts[progressKey])
  }

  /** Does nothing when nothing changed. Throws Fenced. */
  async save(saved: SavedState, counted: Counters, signal: AbortSignal): Promise<boolean> {
    if (this.#fence !== undefined) throw this.#fence
    const text = JSON.stringify([saved, counted])
    if (text === this.#lastSaved) return false
    for (;;) {
      const { holder } = this.#checkpoint
      try {
        await this.#write(saved, counted, signal)
        this.#lastSaved = text
        return true
      } catch (error) {
        if (!(error instanceof StoreConflict)) throw error
      }
      await this.#load(signal)
      if (holder !== undefined) this.#hold(holder)
    }
  }

  /** Somebody wrote: another holder ends us; an edit by hand, or a new empty object, does not. */
  #hold(mine: CheckpointHolder): void {
    const theirs = this.#checkpoint.holder
    const isTaken = theirs !== undefined && (theirs.epoch > mine.epoch || (theirs.epoch === mine.epoch && theirs.uid !== mine.uid))
    if (isTaken) {
      this.#fence = new Fenced(fencedText(theirs))
      throw this.#fence
    }
    this.#checkpoint = { ...this.#checkpoint, holder: mine }
  }

  async #write(saved: SavedState, counted: Counters, signal: AbortSignal): Promise<void> {
    const checkpoint = this.#checkpointWith(saved)
    const counters = { ...this.#counters, ...counted, ...sumOf(this.#counters, minus(counted, this.#added)) }
    counters.countersSince = this.#counters.countersSince ?? counted.countersSince
    const texts = {
      [checkpointKey]: JSON.stringify(checkpoint),
      [progressKey]: JSON.stringify({ v: checkpointVersion, counters } satisfies SavedProgress),
    }
    this.#version = await this.#store.save(texts, this.#version, signal)
    this.#checkpoint = checkpoint
    this.#counters = counters
    this.#added = minus(counted, zero)
  }

  #checkpointWith({ state, resetId, rewindId }: SavedState): Checkpoint {
    return {
      ...this.#checkpoint,
      ...(resetId === undefined ? {} : { resetId }),
      ...(rewindId === undefined ? {} : { rewindId }),
      ...(state === undefined ? {} : { [this.#options.sourceType]: state }),
    }
  }

  /** What is saved, and no more: a number that people have seen is not taken back by a kill. */
  savedCounters(begun: Counters): Counters {
    return { ...zero, countersSince: begun.countersSince, ...this.#counters }
  }
}

const names = ['readCount', 'processedCount', 'writtenCount', 'droppedCount', 'errorCount'] as const
const zero: Added = { readCount: 0, processedCount: 0, writtenCount: 0, droppedCount: 0, errorCount: 0 }

const sumOf = (left: Partial<Added>, right: Added): Added => each((name) => (left[name] ?? 0) + right[name])
const minus = (left: Added, right: Added): Added => each((name) => left[name] - right[name])
const each = (of: (name: keyof Added) => number): Added => ({
  readCount: of(names[0]),
  processedCount: of(names[1]),
  writtenCount: of(names[2]),
  droppedCount: of(names[3]),
  errorCount: of(names[4]),
})

/** Counters that cannot be read begin anew: they are for people, positions are not among them. */
function readCounters(text: string | undefined): Partial<Counters> {
  try {
    return SavedProgress.parse(JSON.parse(text ?? '')).counters as Partial<Counters>
  } catch {
    return {}
  }
}

const fencedText = ({ pod, epoch }: CheckpointHolder): string => `pod ${pod} has taken the flow with epoch ${epoch}: this one stops`
