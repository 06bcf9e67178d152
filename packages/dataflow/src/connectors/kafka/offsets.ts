// Start offsets: the committed offset, else the flow's startOffset; and rewinding a group.
import { type Instant, parseInstant } from '@brokkr/contract/dataflow/language/instant.ts'
import type { Admin } from '@platformatic/kafka'
import { ConnectorError, type Rewind } from '../connector.ts'
import type { KafkaFetcher } from './fetcher.ts'

/** `start` is earliest, latest or an RFC3339 time. */
export async function startOffsets(
  fetcher: KafkaFetcher,
  start: string,
  partitions: readonly number[],
  committed: ReadonlyMap<number, bigint>,
): Promise<Map<number, bigint>> {
  const fresh = partitions.filter((partition) => !committed.has(partition))
  const configuredOffsets = fresh.length === 0 ? new Map<number, bigint>() : await fetcher.offsets(parseStartOffset(start), fresh)
  return new Map(partitions.map((partition) => [partition, committed.get(partition) ?? configuredOffsets.get(partition) ?? 0n]))
}

/** The group must have no members. Partitions that `to` does not name keep their offset. */
export async function rewindGroup(
  deps: { readonly admin: Admin; readonly fetcher: KafkaFetcher },
  groupId: string,
  topic: string,
  to: Rewind,
): Promise<void> {
  const { admin, fetcher } = deps
  if (to === 'start') return forgetOffsets(deps, groupId, topic)
  const offsets = await readTargetOffsets(fetcher, to)
  const partitionOffsets = [...offsets].map(([partition, offset]) => ({ partition, offset }))
  await admin.alterConsumerGroupOffsets({ groupId, topics: [{ name: topic, partitionOffsets }] })
}

async function forgetOffsets({ admin, fetcher }: { admin: Admin; fetcher: KafkaFetcher }, groupId: string, topic: string): Promise<void> {
  const [group] = await admin.listConsumerGroupOffsets({ groups: [groupId] })
  const storedPartitions = group?.topics.find(({ name }) => name === topic)?.partitions ?? []
  const partitionIndexes = storedPartitions.map(({ partitionIndex }) => partitionIndex)
  if (partitionIndexes.length > 0) await admin.deleteConsumerGroupOffsets({ groupId, topics: [{ name: topic, partitionIndexes }] })
  await fetcher.metadata()
}

async function readTargetOffsets(fetcher: KafkaFetcher, to: Exclude<Rewind, 'start'>): Promise<Map<number, bigint>> {
  if (to === 'earliest' || to === 'latest') return fetcher.offsets(to)
  if ('time' in to) return fetcher.offsets(parseStartOffset(to.time))
  if ('offsets' in to) return checkOffsets(fetcher, to.offsets)
  throw new ConnectorError(
    { class: 'config', type: 'unknown' },
    `a kafka source is rewound to earliest, latest, a time or offsets, not to ${Object.keys(to)[0]}`,
  )
}

async function checkOffsets(fetcher: KafkaFetcher, offsets: Readonly<Record<string, number>>): Promise<Map<number, bigint>> {
  const ends = await fetcher.offsets('latest')
  return new Map(
    Object.entries(offsets).map(([partition, offset]) => {
      const end = ends.get(Number(partition))
      if (end === undefined) throw configError(`partition ${partition} does not exist`)
      if (BigInt(offset) > end) throw configError(`offset ${offset} of partition ${partition} is after its end ${end}`)
      return [Number(partition), BigInt(offset)]
    }),
  )
}

const configError = (message: string) => new ConnectorError({ class: 'config', type: 'unknown' }, message)

function parseStartOffset(start: string): 'earliest' | 'latest' | number {
  if (start === 'earliest' || start === 'latest') return start
  const instant = parseInstant(start)
  if (instant === undefined) throw configError(`"${start}" is not an RFC3339 time`)
  return toMilliseconds(instant)
}

/** Kafka stores milliseconds: the first message at or after the time is requested, so a finer fraction is rounded up. */
function toMilliseconds({ seconds, fraction }: Instant): number {
  const digits = fraction.padEnd(3, '0')
  return seconds * 1000 + Number(digits.slice(0, 3)) + (/[1-9]/.test(digits.slice(3)) ? 1 : 0)
}
