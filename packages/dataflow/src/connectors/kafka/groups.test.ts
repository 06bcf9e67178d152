import { systemClock } from '@brokkr/runtime/clock.ts'
import { kafka, uniqueName } from '@brokkr/testing/servers/kafka.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, onTestFinished, test } from 'vitest'
import { readSource } from '../../processor/pipeline/reader.ts'
import type { Message, Source, SourceContext } from '../connector.ts'
import { sourceConfig } from '../test-parts/configs.ts'
import { endlessBudget, nothingSeen, type Seen, sourceContext } from '../test-parts/contexts.ts'
import { committed, fill, makeTopic, withAdmin } from '../test-parts/kafka-topics.ts'
import { kafkaSourceWith } from './index.ts'

const longMs = 300_000
/** Partitions move soon, and a machine that stands still for some seconds loses nobody. */
const tuning = { sessionTimeoutMs: 60_000, heartbeatMs: 300, partitionsCheckMs: 200, joinMs: 180_000 }

type Member = {
  source: Source
  seen: Seen
  read: Message[]
  done: Promise<void>
  stop: () => Promise<void>
  /** What went wrong on the way, for a test that waited in vain. */
  failed: () => string
  onRevoked?: (partitions: readonly unknown[]) => Promise<void>
}

async function member(topic: string, consumerGroup: string, tuned = tuning, more: Partial<SourceContext> = {}): Promise<Member> {
  const seen = nothingSeen()
  const stopping = new AbortController()
  const plain = sourceContext({ replicas: 2, signal: stopping.signal, ...more }, seen)
  const made: Partial<Member> = { seen, read: [] }
  const context = {
    ...plain,
    revoked: async (partitions: readonly (string | number)[]) => {
      await made.onRevoked?.(partitions)
      await plain.revoked(partitions)
    },
  }
  const source = kafkaSourceWith(tuned).open(sourceConfig('kafka', { brokers: [(await kafka()).plaintext], topic, consumerGroup }), context)
  await source.connect()
  const failures: string[] = []
  const done = readSource({
    source,
    budget: endlessBudget,
    clock: systemClock,
    stopping: stopping.signal,
    isBounded: false,
    retry: { baseMs: 50, maxMs: 500 },
    take: async ({ messages }) => void made.read!.push(...messages),
    onReading: () => undefined,
    onFailure: (error) => void failures.push(error.message),
  })
  done.catch((error: unknown) => void failures.push(`ended: ${String(error)}`))
  const stop = async () => {
    stopping.abort()
    await source.close()
    await done.catch(() => undefined)
  }
  onTestFinished(stop)
  const failed = () => `${made.read!.length} read; failures: ${failures.join('; ') || 'none'}`
  return Object.assign(made, { source, done, stop, failed }) as Member
}

const own = (one: Member) => one.source.group?.()?.partitions ?? []
const ownedBy = (...members: Member[]) => members.map((one) => own(one).length).toSorted((a, b) => a - b)

test('a partition is released after its in-flight messages are committed', {
  timeout: longMs,
}, async () => {
  const topic = await makeTopic({ partitions: 4 })
  const group = uniqueName('group')
  await fill(
    topic,
    Array.from({ length: 40 }, (_, index) => ({ value: String(index), partition: index % 4 })),
  )
  const first = await member(topic, group)
  // Distinct ones: a member that was thrown out and came back reads what nobody committed again.
  const readBy = ({ read }: Member) => new Set(read.map(({ partition, position }) => `${partition}:${position as number}`)).size
  await waitFor('the first member to read all', () => readBy(first) === 40, { onTimeout: first.failed })
  const gate = Promise.withResolvers<void>()
  const asked = Promise.withResolvers<readonly number[]>()
  first.onRevoked = async (partitions) => {
    asked.resolve(partitions as number[])
    await gate.promise
    // As the pipeline does when the open messages have ended.
    await first.source.commit(new Map(partitions.map((partition) => [partition as number, 9])))
  }
  const second = await member(topic, group)
  const given = await asked.promise
  expect(given.length).toBe(2)
  expect(own(second)).toEqual([])
  gate.resolve()
  await waitFor('the partitions to be shared', () => ownedBy(first, second).join() === '2,2')
  expect(new Set([...own(first), ...own(second)]).size).toBe(4)
  expect(await committed(group, topic)).toEqual(Object.fromEntries(given.map((partition) => [partition, 10])))
  await fill(
    topic,
    given.map((partition) => ({ value: 'new', partition })),
  )
  await waitFor('the second member to read what is new', () => second.read.length === 2)
  expect(second.read.map(({ position }) => position)).toEqual([10, 10])
  // What the first one says of a partition it gave back is not sent any more.
  await first.source.commit(new Map(given.map((partition) => [partition, 5])))
  expect((await committed(group, topic))[given[0]!]).toBe(10)
})

test('a join times out and succeeds after other members leave', { timeout: longMs }, async () => {
  const topic = await makeTopic({ partitions: 4 })
  const group = uniqueName('group')
  const first = await member(topic, group)
  await waitFor('the first member to have all', () => own(first).length === 4)
  const [gate, asked] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  first.onRevoked = () => {
    asked.resolve()
    return gate.promise
  }
  const second = await member(topic, group)
  // From here on the group waits for the first one, and nobody gets in.
  await asked.promise
  const third = await member(topic, group, { ...tuning, joinMs: 2_000 })
  await waitFor('it to say so', () => /could not join the group of topic .* within 2 s/.test(third.failed()), { onTimeout: third.failed })
  gate.resolve()
  await waitFor('the partitions to be shared', () => ownedBy(first, second, third).join() === '1,1,2', { onTimeout: third.failed })
})

test('[D87] after a member vanishes, the other reads all uncommitted messages', {
  timeout: longMs,
}, async () => {
  const topic = await makeTopic({ partitions: 4 })
  const group = uniqueName('group')
  const [first, second] = [await member(topic, group), await member(topic, group)]
  await waitFor('the partitions to be shared', () => ownedBy(first, second).join() === '2,2')
  const total = 2_000
  const written = fill(
    topic,
    Array.from({ length: total }, (_, index) => ({ value: String(index), partition: index % 4 })),
  )
  await waitFor('both to read', () => first.read.length > 0 && second.read.length > 0)
  // The first ended some of what it read, said so, and is gone without a word: it neither leaves nor answers.
  const ended = new Map<number, number>()
  for (const { partition, position } of first.read.slice(0, 50)) ended.set(partition as number, position as number)
  await first.source.commit(ended)
  const before = await committed(group, topic)
  for (const [partition, position] of ended) expect(before[partition]).toBe(position + 1)
  const victim = first.source.group?.()
  await withAdmin((await kafka()).plaintext, (admin) =>
    admin.removeMembersFromConsumerGroup({ groupId: group, members: [{ memberId: victim!.memberId, reason: 'killed' }] }),
  )
  await first.stop()
  await written
  await waitFor('the survivor to have all partitions', () => own(second).length === 4)
  const counted = () => {
    const got = new Set(second.read.map(({ partition, position }) => `${partition as number}:${position as number}`))
    for (const [partition, position] of ended) for (let at = 0; at <= position; at += 1) got.add(`${partition}:${at}`)
    return got.size
  }
  await waitFor('every message to be read', () => counted() === total, { limitMs: 120_000 })
  expect(second.seen.assigned.flat().toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3])
})

const memberIds = async (group: string) =>
  withAdmin((await kafka()).plaintext, async (admin) => [
    ...((await admin.describeGroups({ groups: [group] })).get(group)?.members.keys() ?? []),
  ])

test('a starting flow does not remove members of other applications', { timeout: longMs }, async () => {
  const topic = await makeTopic({ partitions: 2 })
  const group = uniqueName('group')
  // Under the same name, as in another cluster.
  const other = await member(topic, group, tuning, { flowId: 'elsewhere' })
  await waitFor('the other to have all', () => own(other).length === 2, { onTimeout: other.failed })
  const { memberId } = other.source.group!()!
  const flow = await member(topic, group, tuning, { replicas: 1, flowId: 'here' })
  await waitFor('the partitions to be shared', () => ownedBy(other, flow).join() === '1,1', { onTimeout: flow.failed })
  expect(other.source.group?.()?.memberId).toBe(memberId)
  expect(await memberIds(group)).toContain(memberId)
})

test('a starting flow removes the member of its earlier process', { timeout: longMs }, async () => {
  const topic = await makeTopic()
  const group = uniqueName('group')
  const earlier = await member(topic, group, tuning, { replicas: 1, flowId: 'here' })
  await waitFor('the earlier process to have all', () => own(earlier).length === 1, { onTimeout: earlier.failed })
  const { memberId } = earlier.source.group!()!
  await member(topic, group, tuning, { replicas: 1, flowId: 'here' })
  await waitFor('its member to be gone', async () => !(await memberIds(group)).includes(memberId))
})

test('a removed member rejoins and reads from the committed offset', { timeout: longMs }, async () => {
  const topic = await makeTopic()
  const group = uniqueName('group')
  await fill(topic, [{ value: 'a' }, { value: 'b' }])
  const only = await member(topic, group)
  await waitFor('it to read', () => only.read.length === 2)
  await only.source.commit(new Map([[0, 0]]))
  const lost = only.source.group?.()
  await withAdmin((await kafka()).plaintext, (admin) =>
    admin.removeMembersFromConsumerGroup({ groupId: group, members: [{ memberId: lost!.memberId, reason: 'test' }] }),
  )
  await waitFor('it to be back under another name', () => {
    const now = only.source.group?.()
    return now !== undefined && now.memberId !== lost!.memberId
  })
  await waitFor('it to read what was not committed again', () => only.read.length === 3)
  expect(only.read.at(-1)?.position).toBe(1)
  expect(only.seen.revoked).toEqual([[0]])
  expect(only.seen.assigned).toEqual([[0], [0]])
})

test('partitions that are added to the topic are read', { timeout: longMs }, async () => {
  const topic = await makeTopic()
  const only = await member(topic, uniqueName('group'))
  await waitFor('it to have the partition', () => own(only).length === 1)
  await withAdmin((await kafka()).plaintext, (admin) =>
    admin.createPartitions({ topics: [{ name: topic, count: 2, assignments: null as never }] }),
  )
  await waitFor('it to have both', () => own(only).length === 2)
  await fill(topic, [{ value: 'x', partition: 1 }])
  await waitFor('it to read the new one', () => only.read.length === 1)
})
