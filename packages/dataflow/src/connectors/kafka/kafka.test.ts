import { kafka, uniqueName } from '@brokkr/testing/servers/kafka.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterEach, describe, expect, test } from 'vitest'
import { newMessage } from '../../message/message.ts'
import type { Message, Rec, Sink, Source } from '../connector.ts'
import { sinkConfig, sourceConfig } from '../test-parts/configs.ts'
import { nothingSeen, readCount, readUntil, sinkContext, sourceContext } from '../test-parts/contexts.ts'
import { committed, drain, fill, makeTopic, withAdmin } from '../test-parts/kafka-topics.ts'
import { kafkaSink, kafkaSource } from './index.ts'

/** The first one starts the server. */
const longMs = 300_000
const open: (Source | Sink)[] = []
afterEach(async () => {
  for (const each of open.splice(0)) await each.close()
})

async function source(config: object, context = sourceContext()): Promise<Source> {
  const opened = kafkaSource.open(
    sourceConfig('kafka', { brokers: [(await kafka()).plaintext], consumerGroup: uniqueName('group'), ...config }),
    context,
  )
  open.push(opened)
  await opened.connect()
  return opened
}

async function sink(config: object, context = sinkContext()): Promise<Sink> {
  const opened = kafkaSink.open(sinkConfig('kafka', { brokers: [(await kafka()).plaintext], ...config }), context)
  open.push(opened)
  await opened.connect()
  return opened
}

const rec = (value: string | undefined, part: Partial<Message> = {}): Rec => ({
  ...newMessage({ raw: value === undefined ? undefined : Buffer.from(value), metadata: {}, position: 0, partition: 0 }),
  ...part,
})

test('[D85] ten thousand messages keep partition order, key, headers and tombstones', {
  timeout: longMs,
}, async () => {
  const [from, to] = [await makeTopic({ partitions: 3 }), await makeTopic({ partitions: 3 })]
  const written = Array.from({ length: 10_000 }, (_, index) => ({
    key: `k${index % 97}`,
    value: index % 50 === 7 ? undefined : JSON.stringify({ index }),
    headers: { trace: `t${index}`, empty: '' },
    partition: index % 3,
  }))
  await fill(from, written)
  const reader = await source({ topic: from }, sourceContext({ isBounded: true }))
  const writer = await sink({ topic: to })
  const seen: Message[] = []
  for await (const { messages } of reader.read({ isSpent: false, room: async () => undefined })) {
    seen.push(...messages)
    await writer.write(messages, new Map())
  }
  expect(seen).toHaveLength(10_000)
  for (const partition of [0, 1, 2]) {
    const mine = seen.filter((message) => message.partition === partition)
    expect(mine.map(({ position }) => position)).toEqual(mine.map((_message, index) => index))
    expect(mine.map(({ key }) => Buffer.from(key!).toString())).toEqual(
      written.filter((_, index) => index % 3 === partition).map(({ key }) => key),
    )
  }
  expect(seen[0]?.metadata).toEqual({
    topic: from,
    partition: seen[0]?.partition,
    offset: 0,
    key: expect.stringMatching(/^k/) as string,
    timestamp: expect.any(Date) as Date,
    headers: { trace: expect.stringMatching(/^t/) as string, empty: '' },
  })
  const found = await drain(to)
  expect(found).toHaveLength(10_000)
  // The order of one key is that in which it was read; a key lies in one partition.
  const bySeen = seen.map((message) => Buffer.from(message.key!).toString())
  for (const key of new Set(bySeen)) {
    const sent = seen.filter((_message, index) => bySeen[index] === key)
    const got = found.filter((message) => message.key === key)
    expect(new Set(got.map(({ partition }) => partition)).size).toBe(1)
    expect(got.map(({ value }) => value)).toEqual(sent.map(({ raw }) => (raw === undefined ? undefined : Buffer.from(raw).toString())))
    expect(got.map(({ headers }) => headers)).toEqual(sent.map(({ metadata }) => metadata['headers']))
  }
  await reader.commit(
    new Map([0, 1, 2].map((partition) => [partition, seen.findLast((message) => message.partition === partition)!.position])),
  )
  expect(await reader.lag()).toEqual({ messages: 0 })
})

describe('a source', () => {
  test('resumes after the committed offset, or at the start without one', { timeout: longMs }, async () => {
    const topic = await makeTopic()
    const consumerGroup = uniqueName('group')
    await fill(
      topic,
      Array.from({ length: 10 }, (_, index) => ({ value: String(index) })),
    )
    const first = await source({ topic, consumerGroup })
    expect(await readCount(first, 10)).toHaveLength(10)
    await first.commit(new Map([[0, 3]]))
    expect(await committed(consumerGroup, topic)).toEqual({ 0: 4 })
    expect(await first.lag()).toEqual({ messages: 6 })
    await first.close()
    const second = await source({ topic, consumerGroup })
    expect((await readCount(second, 6)).map(({ position }) => position)).toEqual([4, 5, 6, 7, 8, 9])
  })

  test('a dead member is replaced at once if the flow has one replica', { timeout: longMs }, async () => {
    const topic = await makeTopic()
    const consumerGroup = uniqueName('group')
    await fill(topic, [{ value: 'a' }])
    const dead = await source({ topic, consumerGroup }, sourceContext({ flowId: 'one' }))
    await readCount(dead, 1)
    const begin = performance.now()
    const next = await source({ topic, consumerGroup }, sourceContext({ flowId: 'one' }))
    expect(await readCount(next, 1)).toHaveLength(1)
    expect(performance.now() - begin).toBeLessThan(15_000)
  })

  test.each([
    ['latest', 0],
    ['earliest', 3],
  ])('starts at %s', { timeout: longMs }, async (startOffset, count) => {
    const topic = await makeTopic()
    await fill(topic, [{ value: 'a' }, { value: 'b' }, { value: 'c' }])
    const reader = await source({ topic, startOffset }, sourceContext({ isBounded: true }))
    expect(await readUntil(reader, () => false)).toHaveLength(count)
  })

  test('starts at the first message at or after a time, else at the end', { timeout: longMs }, async () => {
    const topic = await makeTopic()
    await fill(topic, [{ value: 'old' }])
    await new Promise((resolve) => setTimeout(resolve, 50))
    const time = new Date()
    await fill(topic, [{ value: 'new' }])
    const reader = await source({ topic, startOffset: time.toISOString() }, sourceContext({ isBounded: true }))
    expect((await readUntil(reader, () => false)).map(({ raw }) => String(raw))).toEqual(['new'])
    const late = await source({ topic, startOffset: '2200-01-01T00:00:00Z' }, sourceContext({ isBounded: true }))
    expect(await readUntil(late, () => false)).toEqual([])
  })

  test('stops fetching while the budget is spent and stays a member of its group', { timeout: longMs }, async () => {
    const topic = await makeTopic()
    const consumerGroup = uniqueName('group')
    await fill(topic, [{ value: 'a' }])
    const reader = await source({ topic, consumerGroup })
    const gate = Promise.withResolvers<void>()
    let isOpen = true
    const budget = { isSpent: false, room: () => (isOpen ? Promise.resolve() : gate.promise) }
    const reading = reader.read(budget)[Symbol.asyncIterator]()
    expect((await reading.next()).value?.messages).toHaveLength(1)
    isOpen = false
    await fill(topic, [{ value: 'b' }])
    let isThere = false
    const next = reading.next().then((result) => {
      isThere = true
      return result
    })
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    expect(isThere).toBe(false)
    const group = await withAdmin((await kafka()).plaintext, (admin) => admin.describeGroups({ groups: [consumerGroup] }))
    expect(group.get(consumerGroup)?.members.size).toBe(1)
    isOpen = true
    gate.resolve()
    expect((await next).value?.messages).toHaveLength(1)
    await reading.return?.()
  })

  test('reports deleted messages and continues with the oldest one', { timeout: longMs }, async () => {
    const topic = await makeTopic()
    const consumerGroup = uniqueName('group')
    await fill(
      topic,
      Array.from({ length: 10 }, (_, index) => ({ value: String(index) })),
    )
    const first = await source({ topic, consumerGroup })
    await readCount(first, 10)
    await first.commit(new Map([[0, 1]]))
    await first.close()
    await withAdmin((await kafka()).plaintext, (admin) =>
      admin.deleteRecords({ topics: [{ name: topic, partitions: [{ partition: 0, offset: 5n }] }] }),
    )
    const seen = nothingSeen()
    const second = await source({ topic, consumerGroup }, sourceContext({}, seen))
    expect((await readCount(second, 5)).map(({ position }) => position)).toEqual([5, 6, 7, 8, 9])
    expect(seen.notices).toEqual([`MessagesLost: ${topic}[0]: offset 2 is not there any more, reading goes on at 5`])
  })

  test.each([
    ['earliest', [0, 1, 2, 3]],
    ['latest', []],
    [{ offsets: { 0: 2 } }, [2, 3]],
    [{ time: '1971-01-01T00:00:00Z' }, [0, 1, 2, 3]],
    ['start', [0, 1, 2, 3]],
  ] as const)('is rewound to %j', { timeout: longMs }, async (to, offsets) => {
    const topic = await makeTopic()
    const consumerGroup = uniqueName('group')
    await fill(
      topic,
      Array.from({ length: 4 }, (_, index) => ({ value: String(index) })),
    )
    const first = await source({ topic, consumerGroup })
    await readCount(first, 4)
    await first.commit(new Map([[0, 0]]))
    await first.close()
    const second = await source({ topic, consumerGroup }, sourceContext({ isBounded: true }))
    await second.rewind(to)
    expect((await readUntil(second, () => false)).map(({ position }) => position)).toEqual(offsets)
  })

  test('a missing topic and an unsupported rewind are class config', { timeout: longMs }, async () => {
    await expect(source({ topic: 'no-such-topic' })).rejects.toMatchObject({ class: 'config' })
    const topic = await makeTopic()
    const reader = await source({ topic })
    await expect(reader.rewind({ lsn: '0/1' })).rejects.toMatchObject({ class: 'config' })
    await expect(reader.rewind({ offsets: { 7: 1 } })).rejects.toThrow('partition 7 does not exist')
    expect(reader.origin).toMatch(/^[0-9a-f-]{36}$/)
    expect(
      reader.describe(
        new Map([
          [1, 998],
          [0, 1201],
        ]),
      ),
    ).toBe(`${topic}[0]=1201 ${topic}[1]=998`)
  })

  test('metadata addresses and loopback are refused before a connection', async () => {
    for (const brokers of [['169.254.169.254:9092'], ['127.0.0.1:9092']]) {
      const reader = kafkaSource.open(sourceConfig('kafka', { brokers, topic: 't' }), sourceContext({ allowLoopback: false }))
      await expect(reader.connect()).rejects.toMatchObject({
        class: 'config',
        message: expect.stringContaining('may not be reached') as string,
      })
    }
  })
})

describe('a sink', () => {
  test('chooses partitions as the Java client does', { timeout: longMs }, async () => {
    const topic = await makeTopic({ partitions: 5 })
    const writer = await sink({ topic })
    // Taken from org.apache.kafka.clients.producer.internals.BuiltInPartitioner with five partitions.
    await writer.write(
      ['21', 'foobar', 'a-little-bit-long-string', 'a-little-bit-longer-string', 'lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8'].map(
        (key) => rec('{}', { key: Buffer.from(key) }),
      ),
      new Map(),
    )
    const java = {
      '21': -973932308,
      foobar: -790332482,
      'a-little-bit-long-string': -985981536,
      'a-little-bit-longer-string': -1486304829,
      lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8: -58897971,
    }
    const found = Object.fromEntries((await drain(topic)).map(({ key, partition }) => [key, partition]))
    expect(found).toEqual(Object.fromEntries(Object.entries(java).map(([key, hash]) => [key, (hash & 0x7fffffff) % 5])))
  })

  test('spreads batches without a key over the partitions', { timeout: longMs }, async () => {
    const topic = await makeTopic({ partitions: 3 })
    const writer = await sink({ topic })
    for (let batch = 0; batch < 3; batch += 1) await writer.write([rec('1'), rec('2')], new Map())
    expect((await drain(topic)).map(({ partition }) => partition)).toEqual([0, 0, 1, 1, 2, 2])
  })

  test.each(['none', 'gzip', 'snappy', 'lz4', 'zstd'])('compresses with %s', { timeout: longMs }, async (compression) => {
    const topic = await makeTopic()
    const writer = await sink({ topic, compression })
    const text = JSON.stringify({ text: 'x'.repeat(2_000) })
    await writer.write([rec(text), rec(text)], new Map())
    expect((await drain(topic)).map(({ value }) => value)).toEqual([text, text])
  })

  test('reads the key from the configured path', { timeout: longMs }, async () => {
    const topic = await makeTopic()
    const writer = await sink({ topic, keyField: 'user.id' })
    const key = Buffer.from('other')
    await writer.write(
      [rec('{"user":{"id":12345678901234567890}}', { key }), rec('{"user":{"id":"a"}}', { key }), rec('{}', { key })],
      new Map(),
    )
    expect((await drain(topic)).map((found) => found.key)).toEqual(['12345678901234567890', 'a', undefined])
  })

  test('an oversized record is class record, a missing topic class config', { timeout: longMs }, async () => {
    const topic = await makeTopic({ config: { 'max.message.bytes': '1000' } })
    const writer = await sink({ topic, compression: 'none' })
    await expect(writer.write([rec(JSON.stringify('x'.repeat(2_000)))], new Map())).rejects.toMatchObject({
      class: 'record',
      type: 'invalid_data',
    })
    await writer.write([rec('{}')], new Map())
    await withAdmin((await kafka()).plaintext, (admin) => admin.deleteTopics({ topics: [topic] }))
    // The answer comes before the broker has let go of it.
    const refused = await waitFor('the topic to be gone', () =>
      sink({ topic }).then(
        () => undefined,
        (error: unknown) => error,
      ),
    )
    expect(refused).toMatchObject({ class: 'config' })
    await expect(writer.write([rec('{}')], new Map())).rejects.toMatchObject({ class: 'config' })
  })

  test('headers that are not UTF-8 pass unchanged', { timeout: longMs }, async () => {
    const [from, to] = [await makeTopic(), await makeTopic()]
    const odd = new Map([
      [Buffer.from('a'), Buffer.from([0x80, 0xff])],
      [Buffer.from('a'), Buffer.from('second')],
    ])
    const writer = await sink({ topic: from })
    const { toHeaderMetadata } = await import('./headers.ts')
    await writer.write([rec('1', { metadata: toHeaderMetadata([...odd]) })], new Map())
    const [message] = await readCount(await source({ topic: from }), 1)
    const again = await sink({ topic: to })
    await again.write([{ ...message!, metadata: { ...message!.metadata, more: 1 } }], new Map())
    const [last] = await readCount(await source({ topic: to }), 1)
    expect(last?.metadata['headers']).toEqual({ a: 'second' })
    const { toKafkaHeaders } = await import('./headers.ts')
    expect([...toKafkaHeaders(last!.metadata)!].map(([name, value]) => [String(name), value.toString('hex')])).toEqual([
      ['a', '80ff'],
      ['a', Buffer.from('second').toString('hex')],
    ])
  })
})

test('the preview reads the latest messages and commits nothing', { timeout: longMs }, async () => {
  const topic = await makeTopic()
  const group = uniqueName('group')
  await fill(
    topic,
    Array.from({ length: 30 }, (_, index) => ({ value: String(index) })),
  )
  const config = sourceConfig('kafka', { brokers: [(await kafka()).plaintext], topic, consumerGroup: group })
  expect((await kafkaSource.sample(config, sourceContext(), 5)).map(({ position }) => position)).toEqual([25, 26, 27, 28, 29])
  const groups = await withAdmin((await kafka()).plaintext, (admin) => admin.listGroups())
  expect(groups.has(group)).toBe(false)
})
