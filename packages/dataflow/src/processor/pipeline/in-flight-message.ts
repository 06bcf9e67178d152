// A message between read and outcome, and the records that it became. Every message gets exactly one outcome: dead-lettered if any of
// its records was dead-lettered, else written if any was written, else dropped.
import type { Fault } from '../../connectors/connector.ts'
import type { Message, Position } from '../../message/message.ts'
import type { PartitionTracker } from './partition-tracker.ts'

export type MessageOutcome = 'written' | 'dropped' | 'dead-lettered'
export type RecordOutcome = MessageOutcome | 'written-before'

export interface InFlightMessage {
  /** Released with the outcome; the position stays until all earlier messages have an outcome too. */
  message: Message | undefined
  readonly position: Position
  readonly tracker: PartitionTracker
  /** Records without an outcome; 1 until the chain has run. */
  pendingRecords: number
  outcome: MessageOutcome | undefined
  /** Bytes reserved in the budget. */
  bytes: number
  readonly readAtMs: number
  /** Why the message cannot be transformed. */
  readonly fault: Fault | undefined
  hasDeadLetter: boolean
  hasWritten: boolean
}

/** A record in the queue of a sink worker. */
export interface QueueEntry {
  record: Message
  readonly from: InFlightMessage
  /** Index among the records of its message. */
  readonly index: number
  readonly bytes: number
  /** Last record of its message for this sink: after it, the sink's position may include the message. */
  readonly isLast: boolean
}

export const createInFlightMessage = (
  message: Message,
  tracker: PartitionTracker,
  read: Pick<InFlightMessage, 'readAtMs' | 'bytes' | 'fault'>,
): InFlightMessage => ({
  message,
  position: message.position,
  tracker,
  pendingRecords: 1,
  outcome: undefined,
  bytes: read.bytes,
  readAtMs: read.readAtMs,
  fault: read.fault,
  hasDeadLetter: false,
  hasWritten: false,
})

/** Returns the outcome of the message if this was its last pending record. */
export function finishRecord(message: InFlightMessage, outcome: RecordOutcome): MessageOutcome | undefined {
  if (message.pendingRecords <= 0) throw new Error('a record got an outcome after its message already had one')
  message.pendingRecords -= 1
  if (outcome === 'dead-lettered') message.hasDeadLetter = true
  if (outcome === 'written' || outcome === 'written-before') message.hasWritten = true
  if (message.pendingRecords > 0) return undefined
  message.outcome = message.hasDeadLetter ? 'dead-lettered' : message.hasWritten ? 'written' : 'dropped'
  return message.outcome
}
