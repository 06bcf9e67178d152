// Where reading begins: the committed offset, else what the flow says; and how a group is moved by hand.
import { type Instant, parseInstant } from '@brokkr/contract/dataflow/instant.ts'
import type { Admin } from '@platformatic/kafka'
import { ConnectorError, type Rewind } from './connector.ts'
import type { KafkaFetcher } from './kafka-fetcher.ts'

/** `start` is earliest, latest or an RFC3339 time. */
export async function startOffsets(
  fetcher: KafkaFetcher,
  start: string,
  partitions: readonly number[],
  committed: ReadonlyMap<number, bigint>,
): Promise<Map<number, bigint>> {
  const fresh = partitions.filter((partition) => !committed.has(partition))
  const found = fresh.length === 0 ? new Map<number, bigint>() : await fetcher.offsets(pointOf(start), fresh)
  return new Map(partitions.map((partition) => [partition, committed.get(partition) ?? found.get(partition) ?? 0n]))
}

/** With nobody in the group. Partitions that `to` does not name keep their place. */
export async function rewindGroup(
  deps: { readonly admin: Admin; readonly fetcher: KafkaFetcher },
  groupId: string,
  topic: string,
  to: Rewind,
): Promise<void> {
  const { admin, fetcher } = deps
  if (to === 'start') return forgetOffsets(deps, groupId, topic)
  const offsets = await targets(fetcher, to)
  const partitionOffsets = [...offsets].map(([partition, offset]) => ({ partition, offset }))
  await admin.alterConsumerGroupOffsets({ groupId, topics: [{ name: topic, partitionOffsets }] })
}

async function forgetOffsets({ admin, fetcher }: { admin: Admin; fetcher: KafkaFetcher }, groupId: string, topic: string): Promise<void> {
  const [group] = await admin.listConsumerGroupOffsets({ groups: [groupId] })
  const known = group?.topics.find(({ name }) => name === topic)?.partitions ?? []
  const partitionIndexes = known.map(({ partitionIndex }) => partitionIndex)
  if (partitionIndexes.length > 0) await admin.deleteConsumerGroupOffsets({ groupId, topics: [{ name: topic, partitionIndexes }] })
  await fetcher.metadata()
}

async function targets(fetcher: KafkaFetcher, to: Exclude<Rewind, 'start'>): Promise<Map<number, bigint>> {
  if (to === 'earliest' || to === 'latest') return fetcher.offsets(to)
  if ('time' in to) return fetcher.offsets(pointOf(to.time))
  if ('offsets' in to) return named(fetcher, to.offsets)
  throw new ConnectorError(
    { class: 'config', type: 'unknown' },
    `a kafka source is rewound to earliest, latest, a time or offsets, not to ${Object.keys(to)[0]}`,
  )
}

async function named(fetcher: KafkaFetcher, offsets: Readonly<Record<string, number>>): Promise<Map<number, bigint>> {
  const ends = await fetcher.offsets('latest')
  return new Map(
    Object.entries(offsets).map(([partition, offset]) => {
      const end = ends.get(Number(partition))
      if (end === undefined) throw refused(`partition ${partition} does not exist`)
      if (BigInt(offset) > end) throw refused(`offset ${offset} of partition ${partition} lies behind its end ${end}`)
      return [Number(partition), BigInt(offset)]
    }),
  )
}

const refused = (message: string) => new ConnectorError({ class: 'config', type: 'unknown' }, message)

function pointOf(start: string): 'earliest' | 'latest' | number {
  if (start === 'earliest' || start === 'latest') return start
  const instant = parseInstant(start)
  if (instant === undefined) throw refused(`"${start}" is no RFC3339 time`)
  return millisecondsOf(instant)
}

/** Kafka knows milliseconds: the first message at or after the time is meant, so a finer fraction is rounded up. */
function millisecondsOf({ seconds, fraction }: Instant): number {
  const digits = fraction.padEnd(3, '0')
  return seconds * 1000 + Number(digits.slice(0, 3)) + (/[1-9]/.test(digits.slice(3)) ? 1 : 0)
}
