// The flow's checkpoint in this process: taken over with a higher epoch at the start, saved periodically, and given up when another
// processor took it over. Counters are added to the stored ones, because several processors of one consumer group may share them.
import { createHash } from 'node:crypto'
import {
  type Checkpoint,
  type CheckpointHolder,
  checkpointKey,
  checkpointVersion,
  progressKey,
  readCheckpoint,
  SavedProgress,
  UnreadableCheckpoint,
} from '@brokkr/contract/dataflow/checkpoint.ts'
import type { JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import type { Counters } from '@brokkr/contract/dataflow/progress.ts'
import { type CheckpointStore, StoreConflict, type StoredCheckpoint } from './checkpoint-store.ts'

/** Another processor took over the flow: this one stops and writes nothing more. */
export class Fenced extends Error {
  override name = 'Fenced'
}

export interface CheckpointOptions {
  readonly pod: string
  readonly uid: string
  readonly sourceType: string
  /** Processors of one consumer group do not fence each other. */
  readonly isShared: boolean
}

export interface SavedState {
  readonly state: JsonObject | undefined
  readonly resetId?: string | undefined
  readonly rewindId?: string | undefined
}

type CounterTotals = Pick<Counters, 'readCount' | 'processedCount' | 'writtenCount' | 'droppedCount' | 'errorCount'>

export class FlowCheckpoint {
  readonly #store: CheckpointStore
  readonly #options: CheckpointOptions
  #version = ''
  #storeId = ''
  #checkpoint: Checkpoint = { v: checkpointVersion }
  #counters: Partial<Counters> = {}
  /** Counted since the start and already saved. */
  #savedTotals: CounterTotals = { readCount: 0, processedCount: 0, writtenCount: 0, droppedCount: 0, errorCount: 0 }
  #lastSaved = ''
  /** Once fenced, the checkpoint is never written again. */
  #fenced: Fenced | undefined

  constructor(store: CheckpointStore, options: CheckpointOptions) {
    this.#store = store
    this.#options = options
  }

  get epoch(): number {
    return this.#checkpoint.holder?.epoch ?? 0
  }

  /** Equal for all processes of this flow, different for every other flow. Set after `takeOver`. */
  get flowId(): string | undefined {
    if (this.#storeId === '') return undefined
    return createHash('sha256').update(this.#storeId).digest('hex').slice(0, 16)
  }

  get appliedOneShots(): { resetId: string | undefined; rewindId: string | undefined } {
    return { resetId: this.#checkpoint.resetId, rewindId: this.#checkpoint.rewindId }
  }

  /** Stored state of the source. */
  get state(): JsonObject | undefined {
    return this.#checkpoint[this.#options.sourceType] as JsonObject | undefined
  }

  get isShared(): boolean {
    return this.#options.isShared
  }

  /** State that a sink saved before its last write. */
  getSinkState(key: string): JsonObject | undefined {
    return this.#checkpoint.sinks?.[key] as JsonObject | undefined
  }

  get counters(): Partial<Counters> {
    return this.#counters
  }

  /** Takes over from any earlier holder, which the higher epoch fences. `resetId`: the last requested reset; until it is applied, an
   *  unreadable checkpoint is replaced, because the flow starts from the beginning anyway. */
  async takeOver(signal: AbortSignal, resetId?: string): Promise<void> {
    for (;;) {
      await this.#load(signal, resetId)
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

  async #load(signal: AbortSignal, resetId?: string): Promise<void> {
    const { texts, version, storeId } = await this.#store.load(signal)
    this.#version = version
    this.#storeId = storeId
    const mayReplace = resetId !== undefined && !isApplied(resetId, texts)
    this.#checkpoint = (mayReplace ? readOrReplace : readCheckpoint)(texts[checkpointKey]) ?? { v: checkpointVersion }
    this.#counters = readCounters(texts[progressKey])
  }

  /** Returns false if nothing changed. Throws Fenced. */
  async save(saved: SavedState, counted: Counters, signal: AbortSignal): Promise<boolean> {
    if (this.#fenced !== undefined) throw this.#fenced
    const text = JSON.stringify([saved, counted])
    if (text === this.#lastSaved) return false
    await this.#repeatOnConflict(signal, () => this.#write(saved, counted, signal))
    this.#lastSaved = text
    return true
  }

  /** Stores the state of one sink and nothing else. Throws Fenced. */
  async saveSinkState(key: string, state: JsonObject, signal: AbortSignal): Promise<void> {
    if (this.#fenced !== undefined) throw this.#fenced
    await this.#repeatOnConflict(signal, async () => {
      const checkpoint = { ...this.#checkpoint, sinks: { ...this.#checkpoint.sinks, [key]: state } }
      this.#version = await this.#store.save({ [checkpointKey]: JSON.stringify(checkpoint) }, this.#version, signal)
      this.#checkpoint = checkpoint
    })
  }

  async #repeatOnConflict(signal: AbortSignal, write: () => Promise<void>): Promise<void> {
    for (;;) {
      const { holder } = this.#checkpoint
      try {
        return await write()
      } catch (error) {
        if (!(error instanceof StoreConflict)) throw error
      }
      await this.#load(signal)
      if (holder !== undefined) this.#requireHolder(holder)
    }
  }

  /** After a conflict: another holder fences this process; a manual edit or a new empty object does not. */
  #requireHolder(mine: CheckpointHolder): void {
    const theirs = this.#checkpoint.holder
    const isTaken = theirs !== undefined && (theirs.epoch > mine.epoch || (theirs.epoch === mine.epoch && theirs.uid !== mine.uid))
    if (isTaken) {
      this.#fenced = new Fenced(toFencedMessage(theirs))
      throw this.#fenced
    }
    this.#checkpoint = { ...this.#checkpoint, holder: mine }
  }

  async #write(saved: SavedState, counted: Counters, signal: AbortSignal): Promise<void> {
    const checkpoint = this.#checkpointWith(saved)
    const counters = { ...this.#counters, ...counted, ...addTotals(this.#counters, subtractTotals(counted, this.#savedTotals)) }
    counters.countersSince = this.#counters.countersSince ?? counted.countersSince
    const texts = {
      [checkpointKey]: JSON.stringify(checkpoint),
      [progressKey]: JSON.stringify({ v: checkpointVersion, counters, resetId: checkpoint.resetId } satisfies SavedProgress),
    }
    this.#version = await this.#store.save(texts, this.#version, signal)
    this.#checkpoint = checkpoint
    this.#counters = counters
    this.#savedTotals = subtractTotals(counted, zero)
  }

  #checkpointWith({ state, resetId, rewindId }: SavedState): Checkpoint {
    const { [this.#options.sourceType]: stored, ...rest } = this.#checkpoint
    const before = this.appliedOneShots
    const isSetBack = (resetId !== undefined && resetId !== before.resetId) || (rewindId !== undefined && rewindId !== before.rewindId)
    // A source without a state begins anew: with the former state a restart would undo the reset.
    const kept = state ?? (isSetBack ? undefined : stored)
    return {
      ...(rest as Checkpoint),
      ...(resetId === undefined ? {} : { resetId }),
      ...(rewindId === undefined ? {} : { rewindId }),
      ...(kept === undefined ? {} : { [this.#options.sourceType]: kept }),
    }
  }

  /** Only saved counters are reported, so that a kill never decreases a reported number. */
  savedCounters(begun: Counters): Counters {
    return { ...zero, countersSince: begun.countersSince, ...this.#counters }
  }
}

const names = ['readCount', 'processedCount', 'writtenCount', 'droppedCount', 'errorCount'] as const
const zero: CounterTotals = { readCount: 0, processedCount: 0, writtenCount: 0, droppedCount: 0, errorCount: 0 }

const addTotals = (left: Partial<CounterTotals>, right: CounterTotals): CounterTotals =>
  mapTotals((name) => (left[name] ?? 0) + right[name])
const subtractTotals = (left: CounterTotals, right: CounterTotals): CounterTotals => mapTotals((name) => left[name] - right[name])
const mapTotals = (of: (name: keyof CounterTotals) => number): CounterTotals => ({
  readCount: of(names[0]),
  processedCount: of(names[1]),
  writtenCount: of(names[2]),
  droppedCount: of(names[3]),
  errorCount: of(names[4]),
})

/** The reset id stays in the spec, so a checkpoint that becomes unreadable after the reset must not be replaced. */
const isApplied = (resetId: string, texts: StoredCheckpoint['texts']): boolean =>
  [texts[checkpointKey], texts[progressKey]].some((text) => findResetId(text) === resetId)

/** Also finds the id in a text with another structure. */
function findResetId(text: string | undefined): unknown {
  try {
    return (JSON.parse(text ?? '') as { resetId?: unknown } | null)?.resetId
  } catch {
    return undefined
  }
}

function readOrReplace(text: string | undefined): Checkpoint | undefined {
  try {
    return readCheckpoint(text)
  } catch (error) {
    if (error instanceof UnreadableCheckpoint) return undefined
    throw error
  }
}

/** Unreadable counters start again at zero: they contain no positions. */
function readCounters(text: string | undefined): Partial<Counters> {
  try {
    return SavedProgress.parse(JSON.parse(text ?? '')).counters as Partial<Counters>
  } catch {
    return {}
  }
}

const toFencedMessage = ({ pod, epoch }: CheckpointHolder): string => `pod ${pod} has taken the flow with epoch ${epoch}: this one stops`
