// For sinks whose transactions contain the source's offsets: selects the records of a batch that a transaction may contain now. An offset
// must not pass a message that is pending elsewhere, so a record waits for all messages read before it.

import type { Partition, Position } from '../../message/message.ts'
import type { InFlightMessage, QueueEntry } from '../pipeline/in-flight-message.ts'
import type { InFlightMessages } from '../pipeline/in-flight-messages.ts'
import type { PartitionTracker } from '../pipeline/partition-tracker.ts'
import { BatchNotWritten } from './batch-writer.ts'
import type { OffsetCoverage } from './sink-worker.ts'

export function createOffsetCoverage(inFlight: InFlightMessages, ended: AbortSignal): OffsetCoverage {
  return {
    select: (entries) => selectCommittable(entries),
    waitForChange: async () => {
      await inFlight.waitForChange(ended)
      if (ended.aborted) throw new BatchNotWritten('the process ends before everything read earlier has ended')
    },
  }
}

export function selectCommittable(entries: readonly QueueEntry[]): ReturnType<OffsetCoverage['select']> {
  const whole = findCompleteMessages(entries)
  const positions = new Map<Partition, Position>()
  const reached = new Map<PartitionTracker, number>()
  for (const tracker of new Set(entries.map(({ from }) => from.tracker))) {
    const { position, covered } = tracker.prefixIncluding(whole)
    if (position !== undefined) positions.set(tracker.partition, position)
    reached.set(tracker, covered)
  }
  const committable: QueueEntry[] = []
  const rest: QueueEntry[] = []
  const messagesByTracker = new Map<PartitionTracker, Set<InFlightMessage>>()
  for (const entry of entries) {
    const { tracker } = entry.from
    const messages = messagesByTracker.get(tracker) ?? new Set<InFlightMessage>()
    messagesByTracker.set(tracker, messages.add(entry.from))
    if (messages.size <= reached.get(tracker)!) committable.push(entry)
    else rest.push(entry)
  }
  return { entries: committable, rest, positions }
}

/** Messages whose pending records are all in this batch. */
function findCompleteMessages(entries: readonly QueueEntry[]): Set<InFlightMessage> {
  const counts = new Map<InFlightMessage, number>()
  for (const { from } of entries) counts.set(from, (counts.get(from) ?? 0) + 1)
  return new Set([...counts].flatMap(([message, count]) => (count >= message.pendingRecords ? [message] : [])))
}
