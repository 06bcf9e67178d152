// What a commit may tell the group: everything up to a message that has ended, and never a message that nobody was given yet. Whoever
// reads on behind a commit that went further has lost what lies between, without a word.
import { kafka, uniqueName } from '@brokkr/testing/servers/kafka.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterEach, expect, test } from 'vitest'
import type { Batch, Message, Source } from '../connector.ts'
import { sourceConfig } from '../test-parts/configs.ts'
import { endlessBudget, nothingSeen, readUntil, sourceContext } from '../test-parts/contexts.ts'
import { committed, fill, makeTopic, withAdmin } from '../test-parts/kafka-topics.ts'
import { kafkaSourceWith } from './index.ts'

/** The first one starts the server. */
const longMs = 300_000
/** Who is thrown out of the group hears of it soon. */
const tuning = { sessionTimeoutMs: 60_000, heartbeatMs: 300, partitionsCheckMs: 60_000 }
const open: Source[] = []
afterEach(async () => {
  for (const each of open.splice(0)) await each.close()
})

async function source(config: object, context = sourceContext()): Promise<Source> {
  const opened = kafkaSourceWith(tuning).open(sourceConfig('kafka', { brokers: [(await kafka()).plaintext], ...config }), context)
  open.push(opened)
  await opened.connect()
  return opened
}

const partitionOf = ({ messages }: Batch) => messages[0]!.partition as number
const lastOf = ({ messages }: Batch) => messages.at(-1)!.position as number

/** Several fetches' worth, in both partitions: one fetch brings a part of each. */
async function twoPartitions(topic: string): Promise<void> {
  for (let part = 0; part < 4; part += 1)
    await fill(
      topic,
      Array.from({ length: 100 }, (_, index) => ({ value: `${part}-${index}-${'x'.repeat(100)}`, partition: index % 2 })),
    )
}
const fewBytes = { maxPartitionFetchBytes: 8 << 10 }

/** Reads until a fetch has brought both partitions anew and only the first of them was handed out. */
async function betweenTwo(reader: Source): Promise<{ waiting: number; ended: number; next: () => Promise<Batch> }> {
  const reading = reader.read(endlessBudget)[Symbol.asyncIterator]()
  const next = async () => (await reading.next()).value as Batch
  const seen = new Map<number, number>()
  for (;;) {
    const batch = await next()
    const first = partitionOf(batch)
    const waiting = [...seen.keys()].find((partition) => partition !== first)
    if (waiting !== undefined && seen.has(first)) return { waiting, ended: seen.get(waiting)!, next }
    seen.set(first, lastOf(batch))
  }
}

test('[D60] a commit does not pass messages that were fetched but not emitted', {
  timeout: longMs,
}, async () => {
  const topic = await makeTopic({ partitions: 2 })
  const consumerGroup = uniqueName('group')
  await twoPartitions(topic)
  const first = await source({ topic, consumerGroup, ...fewBytes })
  const { waiting, ended } = await betweenTwo(first)
  await first.commit(new Map([[waiting, ended]]))
  expect(await committed(consumerGroup, topic)).toEqual({ [waiting]: ended + 1 })
  await first.close()
  const second = await source({ topic, consumerGroup }, sourceContext({ isBounded: true }))
  const again = (await readUntil(second, () => false)).filter(({ partition }) => partition === waiting)
  expect(again.map(({ position }) => position)).toEqual(Array.from({ length: 200 - ended - 1 }, (_, index) => ended + 1 + index))
})

test('a bounded run commits no further than the end at its start', {
  timeout: longMs,
}, async () => {
  const topic = await makeTopic()
  const consumerGroup = uniqueName('group')
  await fill(topic, [{ value: 'a' }, { value: 'b' }])
  // The end is known by then, and nothing is fetched yet.
  const assigned = () => fill(topic, [{ value: 'late' }])
  const first = await source({ topic, consumerGroup }, sourceContext({ isBounded: true, assigned }))
  const texts = (messages: readonly Message[]) => messages.map(({ raw }) => String(raw))
  expect(texts(await readUntil(first, () => false))).toEqual(['a', 'b'])
  await first.commit(new Map([[0, 1]]))
  expect(await committed(consumerGroup, topic)).toEqual({ 0: 2 })
  await first.close()
  const second = await source({ topic, consumerGroup }, sourceContext({ isBounded: true }))
  expect(texts(await readUntil(second, () => false))).toEqual(['late'])
})

test('messages fetched before a revocation are not emitted after it', {
  timeout: longMs,
}, async () => {
  const topic = await makeTopic({ partitions: 2 })
  const consumerGroup = uniqueName('group')
  await twoPartitions(topic)
  const seen = nothingSeen()
  const reader = await source({ topic, consumerGroup, ...fewBytes }, sourceContext({}, seen))
  const { next } = await betweenTwo(reader)
  const { memberId } = reader.group!()!
  await withAdmin((await kafka()).plaintext, (admin) =>
    admin.removeMembersFromConsumerGroup({ groupId: consumerGroup, members: [{ memberId, reason: 'thrown out' }] }),
  )
  await waitFor('both partitions to be given back', () => seen.revoked.flat().length === 2)
  expect(seen.assigned).toHaveLength(1)
  const batch = await next()
  expect(seen.assigned).toHaveLength(2)
  // Nothing was committed.
  expect(batch.messages[0]!.position).toBe(0)
})
