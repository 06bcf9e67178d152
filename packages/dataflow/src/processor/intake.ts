// From batches of the source to records in lanes: opens each message, has the chain run, hands its records out. The hot path.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Activity } from './activity.ts'
import type { ChainStage } from './chain-stage.ts'
import type { Batch, Fault, Source } from './connectors/connector.ts'
import type { FlowCounts } from './flow-counts.ts'
import type { FlowWatch } from './flow-watch.ts'
import type { Judge } from './judge.ts'
import type { Lane } from './lane.ts'
import type { LaneSet } from './lane-set.ts'
import type { Message } from './message.ts'
import type { OpenMessage } from './open-message.ts'
import type { OpenMessages } from './open-messages.ts'

export interface IntakeDeps {
  readonly clock: Clock
  readonly source: Pick<Source, 'compare'>
  readonly open: OpenMessages
  readonly lanes: LaneSet
  readonly judge: Judge
  readonly watch: FlowWatch
  readonly counts: FlowCounts
  readonly activity: Activity
  readonly maxMessageBytes: number
  /** Positions only grow: one that does not is read again after an interruption. */
  readonly isMonotonic: boolean
}

export class Intake {
  readonly #deps: IntakeDeps

  constructor(deps: IntakeDeps) {
    this.#deps = deps
  }

  /** Resolves when the next batch may come. */
  async take({ messages, faults }: Batch, stage: ChainStage): Promise<void> {
    const { clock, open, watch, counts, activity, lanes } = this.#deps
    activity.touch()
    const nowMs = clock.now()
    const opened: OpenMessage[] = []
    for (const [at, message] of messages.entries()) {
      const tracker = open.trackerOf(message.partition)
      if (this.#isKnown(message, tracker.lastRead)) continue
      opened.push(open.add(message, tracker, nowMs, faults?.get(at) ?? this.#tooLarge(message)))
    }
    counts.read += messages.length
    watch.read(messages)
    await stage.process(opened)
    await lanes.room()
  }

  #isKnown({ position }: Message, lastRead: Message['position'] | undefined): boolean {
    return this.#deps.isMonotonic && lastRead !== undefined && this.#deps.source.compare(position, lastRead) <= 0
  }

  #tooLarge({ bytes }: Message): Fault | undefined {
    const max = this.#deps.maxMessageBytes
    return bytes > max ? { type: 'too_large', message: `the message has ${bytes} bytes; maxMessageBytes is ${max}` } : undefined
  }

  emit(of: OpenMessage, records: readonly Message[], nowMs: number): void {
    const { judge, open, lanes } = this.#deps
    judge.passed()
    const bytes = open.becameRecords(of, records)
    if (records.length === 1) {
      const record = records[0]!
      lanes.of(record).push({ record, from: of, index: 0, bytes, isLast: true }, nowMs)
      return
    }
    const last = new Map<Lane, number>()
    for (const [index, record] of records.entries()) last.set(lanes.of(record), index)
    for (const [index, record] of records.entries()) {
      const lane = lanes.of(record)
      lane.push({ record, from: of, index, bytes, isLast: last.get(lane) === index }, nowMs)
    }
  }

  drop(of: OpenMessage, reason: string): void {
    this.#deps.watch.dropped(reason, 1)
    this.#deps.open.end(of, 'dropped')
  }

  kick(): void {
    this.#deps.activity.touch()
    this.#deps.lanes.kick()
  }
}
