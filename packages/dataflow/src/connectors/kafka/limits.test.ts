import { kafka, uniqueName } from '@brokkr/testing/servers/kafka.ts'
import { Producer } from '@platformatic/kafka'
import { expect, onTestFinished, test } from 'vitest'
import { newMessage } from '../../message/message.ts'
import type { Batch } from '../connector.ts'
import { sourceConfig } from '../test-parts/configs.ts'
import { sourceContext } from '../test-parts/contexts.ts'
import { makeTopic } from '../test-parts/kafka-topics.ts'
import { byteSum, FetchSize, splitByBytes } from './fetch-size.ts'
import { kafkaSource } from './index.ts'

test('compressed records are emitted in parts of 1 MiB as the budget allows', { timeout: 120_000 }, async () => {
  const [count, bytes] = [30, 400_000]
  const topic = await makeTopic()
  const brokers = (await kafka()).plaintext
  const producer = new Producer({ clientId: 'test', bootstrapBrokers: [brokers], compression: 'gzip' })
  onTestFinished(() => producer.close())
  await producer.send({ messages: Array.from({ length: count }, () => ({ topic, value: Buffer.alloc(bytes, 'x') })) })
  const config = sourceConfig('kafka', { brokers: [brokers], topic, consumerGroup: uniqueName('group') })
  const source = kafkaSource.open(config, sourceContext({ isBounded: true }))
  onTestFinished(() => source.close())
  await source.connect()
  let rooms = 0
  const batches: Batch[] = []
  for await (const batch of source.read({ isSpent: false, room: async () => void (rooms += 1) })) batches.push(batch)
  expect(batches.flatMap(({ messages }) => messages.map(({ position }) => position))).toEqual(Array.from({ length: count }, (_, at) => at))
  expect(Math.max(...batches.map(({ messages }) => byteSum(messages)))).toBeLessThan((1 << 20) + bytes + 1_000)
  expect(rooms).toBeGreaterThanOrEqual(batches.length)
})

test('a fetch requests less while responses exceed the limit', () => {
  const size = new FetchSize(8_000)
  expect(size.bytesToAsk(1)).toBe(1_000)
  size.received(80_000, 1)
  expect(size.bytesToAsk(1)).toBe(100)
  // Fits, and fills what was asked for: the next may be larger.
  size.received(4_000, 1)
  expect(size.bytesToAsk(1)).toBe(200)
  // Little is there: nothing is known of what comes next.
  size.received(10, 1)
  expect(size.bytesToAsk(1)).toBe(200)
})

test('concurrent requests share the limit', () => {
  const size = new FetchSize(8_000)
  expect(size.bytesToAsk(4)).toBe(250)
})

test('a part ends with the message that reaches the limit', () => {
  const messages = [5, 5, 1, 20, 3].map((length, position) =>
    newMessage({ raw: Buffer.alloc(length), metadata: {}, position, partition: 0 }),
  )
  const sizes = messages.map(({ bytes }) => bytes)
  const parts = [...splitByBytes(messages, sizes[0]! + sizes[1]!)]
  expect(parts.flat()).toEqual(messages)
  expect(parts.map((part) => part.length)).toEqual([2, 2, 1])
})
