// A message between reading and its ending, and the records it became. Every message ends exactly once; its records decide how: any
// dead-lettered record makes it dead-lettered, else any written one written, else it was dropped.
import type { Fault } from './connectors/connector.ts'
import type { Message, Position } from './message.ts'
import type { PartitionTracker } from './tracker.ts'

export type Ending = 'written' | 'dropped' | 'dead-lettered'
export type RecordEnding = Ending | 'written-before'

export interface OpenMessage {
  /** Released at the ending; the position stays until everything before it has ended too. */
  message: Message | undefined
  readonly position: Position
  readonly tracker: PartitionTracker
  /** Records that have not ended; 1 while the chain has not spoken. */
  open: number
  ending: Ending | undefined
  /** Taken from the budget for it. */
  bytes: number
  readonly readAtMs: number
  /** Why it cannot even be transformed. */
  readonly fault: Fault | undefined
  hasLetter: boolean
  hasWritten: boolean
}

/** A record on its way to a sink. */
export interface Item {
  record: Message
  readonly from: OpenMessage
  /** Among the records of its message. */
  readonly index: number
  readonly bytes: number
  /** The last of its message for this sink: with it the sink is past the message. */
  readonly isLast: boolean
}

export const openMessage = (
  message: Message,
  tracker: PartitionTracker,
  read: Pick<OpenMessage, 'readAtMs' | 'bytes' | 'fault'>,
): OpenMessage => ({
  message,
  position: message.position,
  tracker,
  open: 1,
  ending: undefined,
  bytes: read.bytes,
  readAtMs: read.readAtMs,
  fault: read.fault,
  hasLetter: false,
  hasWritten: false,
})

/** The ending of the message when this was its last open record, else undefined. */
export function endRecord(of: OpenMessage, ending: RecordEnding): Ending | undefined {
  if (of.open <= 0) throw new Error('a record ended although its message had ended already')
  of.open -= 1
  if (ending === 'dead-lettered') of.hasLetter = true
  if (ending === 'written' || ending === 'written-before') of.hasWritten = true
  if (of.open > 0) return undefined
  of.ending = of.hasLetter ? 'dead-lettered' : of.hasWritten ? 'written' : 'dropped'
  return of.ending
}
