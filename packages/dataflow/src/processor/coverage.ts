// For sinks whose transactions carry the source's offsets: which of a batch's records may go into one now. An offset must not pass a
// message that is open elsewhere, so a record waits for everything read before it.
import type { Coverage } from './lane.ts'
import type { Partition, Position } from './message.ts'
import type { Item, OpenMessage } from './open-message.ts'
import type { OpenMessages } from './open-messages.ts'
import type { PartitionTracker } from './tracker.ts'
import { Unwritten } from './writer.ts'

export function createCoverage(open: OpenMessages, ended: AbortSignal): Coverage {
  return {
    of: (items) => coverageOf(items),
    changed: async () => {
      await open.changed(ended)
      if (ended.aborted) throw new Unwritten('the process ends before everything read earlier has ended')
    },
  }
}

export function coverageOf(items: readonly Item[]): ReturnType<Coverage['of']> {
  const whole = wholeMessages(items)
  const positions = new Map<Partition, Position>()
  const reached = new Map<PartitionTracker, number>()
  for (const tracker of new Set(items.map(({ from }) => from.tracker))) {
    const { position, covered } = tracker.prefixWith(whole)
    if (position !== undefined) positions.set(tracker.partition, position)
    reached.set(tracker, covered)
  }
  const taken: Item[] = []
  const rest: Item[] = []
  const seen = new Map<PartitionTracker, Set<OpenMessage>>()
  for (const item of items) {
    const { tracker } = item.from
    const messages = seen.get(tracker) ?? new Set<OpenMessage>()
    seen.set(tracker, messages.add(item.from))
    if (messages.size <= reached.get(tracker)!) taken.push(item)
    else rest.push(item)
  }
  return { items: taken, rest, positions }
}

/** Messages that end with this batch: all their open records are in it. */
function wholeMessages(items: readonly Item[]): Set<OpenMessage> {
  const counts = new Map<OpenMessage, number>()
  for (const { from } of items) counts.set(from, (counts.get(from) ?? 0) + 1)
  return new Set([...counts].flatMap(([message, count]) => (count >= message.open ? [message] : [])))
}
