// From batches of the source to records in sink queues: registers each message, runs the chain, enqueues its records. The hot path.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Batch, Fault, Source } from '../../connectors/connector.ts'
import type { Message } from '../../message/message.ts'
import type { ChainStage } from '../chain/chain-stage.ts'
import type { FailurePolicy } from '../dead-letter/failure-policy.ts'
import type { SinkWorker } from '../sinks/sink-worker.ts'
import type { SinkWorkers } from '../sinks/sink-workers.ts'
import type { Activity } from '../status/activity.ts'
import type { FlowCounts } from '../status/flow-counts.ts'
import type { FlowStatus } from '../status/flow-status.ts'
import type { InFlightMessage } from './in-flight-message.ts'
import type { InFlightMessages } from './in-flight-messages.ts'

export interface IntakeDeps {
  readonly clock: Clock
  readonly source: Pick<Source, 'compare'>
  readonly inFlight: InFlightMessages
  readonly sinkWorkers: SinkWorkers
  readonly failurePolicy: FailurePolicy
  readonly flowStatus: FlowStatus
  readonly counts: FlowCounts
  readonly activity: Activity
  readonly maxMessageBytes: number
  /** Positions only grow, so a position at or below the last one is a repeat after an interruption. */
  readonly isMonotonic: boolean
}

export class Intake {
  readonly #deps: IntakeDeps

  constructor(deps: IntakeDeps) {
    this.#deps = deps
  }

  /** Resolves when the source may send the next batch. */
  async take({ messages, faults }: Batch, stage: ChainStage): Promise<void> {
    const { clock, inFlight, flowStatus, counts, activity, sinkWorkers } = this.#deps
    activity.record()
    const nowMs = clock.now()
    const newMessages: InFlightMessage[] = []
    for (const [at, message] of messages.entries()) {
      const tracker = inFlight.getTracker(message.partition)
      if (this.#wasAlreadyRead(message, tracker.lastRead)) continue
      newMessages.push(inFlight.add(message, tracker, nowMs, faults?.get(at) ?? this.#checkSize(message)))
    }
    counts.read += messages.length
    flowStatus.recordRead(messages)
    await stage.process(newMessages)
    await sinkWorkers.waitForRoom()
    flowStatus.recordEnqueued()
  }

  #wasAlreadyRead({ position }: Message, lastRead: Message['position'] | undefined): boolean {
    return this.#deps.isMonotonic && lastRead !== undefined && this.#deps.source.compare(position, lastRead) <= 0
  }

  #checkSize({ bytes }: Message): Fault | undefined {
    const max = this.#deps.maxMessageBytes
    return bytes > max ? { type: 'too_large', message: `the message has ${bytes} bytes; maxMessageBytes is ${max}` } : undefined
  }

  enqueue(from: InFlightMessage, records: readonly Message[], nowMs: number): void {
    const { failurePolicy, inFlight, sinkWorkers } = this.#deps
    failurePolicy.recordTransformed()
    const bytes = inFlight.splitIntoRecords(from, records)
    if (records.length === 1) {
      const record = records[0]!
      sinkWorkers.getFor(record).push({ record, from, index: 0, bytes, isLast: true }, nowMs)
      return
    }
    const lastIndexes = new Map<SinkWorker, number>()
    for (const [index, record] of records.entries()) lastIndexes.set(sinkWorkers.getFor(record), index)
    for (const [index, record] of records.entries()) {
      const sinkWorker = sinkWorkers.getFor(record)
      sinkWorker.push({ record, from, index, bytes, isLast: lastIndexes.get(sinkWorker) === index }, nowMs)
    }
  }

  drop(message: InFlightMessage, reason: string): void {
    this.#deps.flowStatus.countDropped(reason, 1)
    this.#deps.inFlight.finishRecord(message, 'dropped')
  }

  wakeSinkWorkers(): void {
    this.#deps.activity.record()
    this.#deps.sinkWorkers.wake()
  }
}
