import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { type FaultProxy, startFaultProxy } from '@brokkr/testing/faults/fault-proxy.ts'
import { kafka, privateKafka, uniqueName } from '@brokkr/testing/servers/kafka.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { Producer } from '@platformatic/kafka'
import { expect, onTestFinished, test } from 'vitest'
import type { Message, Sink, Source } from '../connector.ts'
import { sinkConfig, sourceConfig } from '../test-parts/configs.ts'
import { readCount, sinkContext, sourceContext } from '../test-parts/contexts.ts'
import { committed, drain, fill, makeTopic } from '../test-parts/kafka-topics.ts'
import { kafkaSink, kafkaSource } from './index.ts'

const longMs = 600_000

async function pair(options: {
  from: string
  to: string
  group: string
  brokers?: string
  sinkBrokers?: string
}): Promise<{ source: Source; sink: Sink }> {
  const brokers = options.brokers ?? (await kafka()).plaintext
  const source = kafkaSource.open(
    sourceConfig('kafka', { brokers: [brokers], topic: options.from, consumerGroup: options.group }),
    sourceContext({ flowId: 'one' }),
  )
  onTestFinished(() => source.close())
  const sink = kafkaSink.open(
    sinkConfig('kafka', { brokers: [options.sinkBrokers ?? brokers], topic: options.to, exactlyOnce: 'required' }),
    sinkContext({ source }),
  )
  onTestFinished(() => sink.close())
  await source.connect()
  expect(await sink.connect()).toEqual({ exactlyOnce: 'Transactions', isUpsert: false })
  return { source, sink }
}

const numbers = (count: number) => Array.from({ length: count }, (_, index) => ({ key: String(index % 7), value: String(index) }))
const upTo = (messages: readonly Message[]) => new Map(messages.map(({ partition, position }) => [partition, position]))

test('repeatedly killed connectors write each message once in transactions', {
  timeout: longMs,
}, async () => {
  const total = size('processor.messages')
  const kills = Math.max(size('processor.kills'), 3)
  const [from, to, group] = [await makeTopic({ partitions: 2 }), await makeTopic({ partitions: 2 }), uniqueName('group')]
  await fill(from, numbers(total))
  let ended = false
  let killed = 0
  for (let life = 0; !ended; life += 1) {
    // Killed somewhere in its work: each life writes a few more batches than the one before, the last ones live to the end.
    ended = await copyUntil([from, to, group], life < kills ? life + 1 : Number.POSITIVE_INFINITY)
    if (!ended) killed += 1
  }
  expect(killed).toBeGreaterThanOrEqual(Math.min(kills, 3))
  const values = (await drain(to)).map(({ value }) => Number(value))
  expect(values).toHaveLength(total)
  expect(new Set(values).size).toBe(total)
  const positions = await committed(group, from)
  expect((positions[0] ?? 0) + (positions[1] ?? 0)).toBe(total)
})

/** True when it came to its end before it was killed. */
async function copyUntil(topics: readonly string[], batches: number): Promise<boolean> {
  const program = fileURLToPath(new URL('../test-parts/copy-in-transactions.ts', import.meta.url))
  const child = spawn(process.execPath, [program, (await kafka()).plaintext, ...topics], { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  const exited = once(child, 'exit')
  let wrote = 0
  for await (const line of createInterface(child.stdout)) {
    if (line.startsWith('wrote') && (wrote += 1) >= batches) child.kill('SIGKILL')
  }
  const [code] = (await exited) as [number | null]
  if (code !== null && code !== 0) throw new Error(`the copying program ended with ${code}`)
  return code === 0
}

test('a batch of an old generation is rejected with its offsets', {
  timeout: longMs,
}, async () => {
  const [from, to, group] = [await makeTopic(), await makeTopic(), uniqueName('group')]
  await fill(from, numbers(10))
  const old = await pair({ from, to, group })
  const messages = await readCount(old.source, 10)
  // Another reader takes over; the old one does not know it yet.
  const next = await pair({ from, to, group })
  expect(await readCount(next.source, 10)).toHaveLength(10)
  await expect(old.sink.write(messages, upTo(messages))).rejects.toMatchObject({ class: 'transient' })
  expect(await drain(to)).toEqual([])
  expect(await committed(group, from)).toEqual({})
  await next.sink.write(messages, upTo(messages))
  expect(await drain(to)).toHaveLength(10)
  expect(await committed(group, from)).toEqual({ 0: 10 })
})

test('a lost commit response is resolved before the batch is repeated', { timeout: longMs }, async () => {
  let proxy: FaultProxy | undefined
  const own = await privateKafka({
    front: async (target) => {
      proxy = await startFaultProxy({ target })
      return proxy.port
    },
  })
  onTestFinished(() => own.stop())
  onTestFinished(() => proxy!.close())
  const brokers = own.address.plaintext
  const [from, to, group] = [await makeTopic({ brokers }), await makeTopic({ brokers }), uniqueName('group')]
  await fill(from, numbers(20), brokers)
  const { source, sink } = await pair({ from, to, group, brokers, sinkBrokers: own.address.fronted! })
  const messages = await readCount(source, 20)
  const parts = [messages.slice(0, 5), messages.slice(5, 10), messages.slice(10, 15), messages.slice(15)]
  await sink.write(parts[0]!, upTo(parts[0]!))
  for (const part of parts.slice(1)) {
    let isWritten = false
    // Cut while the transaction is under way, each time a little later; then repeated until it is known to be in.
    for (let tries = 0; !isWritten; tries += 1) {
      const cut = setTimeout(() => proxy!.cut(), tries === 0 ? 5 * parts.indexOf(part) : 60_000)
      isWritten = await sink.write(part, upTo(part)).then(
        () => true,
        () => false,
      )
      clearTimeout(cut)
      proxy!.heal()
      // As long as a pipeline waits at least.
      if (!isWritten) await new Promise((resolve) => setTimeout(resolve, 500))
      if (!isWritten) await sink.connect().catch(() => undefined)
    }
  }
  expect((await drain(to, { brokers })).map(({ value }) => Number(value)).toSorted((a, b) => a - b)).toEqual(
    numbers(20).map((_message, index) => index),
  )
  expect(await committed(group, from, brokers)).toEqual({ 0: 20 })
})

test('records of aborted transactions are read only with isolation uncommitted', {
  timeout: longMs,
}, async () => {
  const topic = await makeTopic()
  const producer = new Producer({
    clientId: 'test',
    bootstrapBrokers: [(await kafka()).plaintext],
    idempotent: true,
    transactionalId: uniqueName('tx'),
  })
  onTestFinished(() => producer.close())
  const inTransaction = async (value: string, isCommitted: boolean) => {
    const transaction = await producer.beginTransaction()
    await transaction.send({ messages: [{ topic, value: Buffer.from(value) }] })
    await (isCommitted ? transaction.commit() : transaction.abort())
  }
  await inTransaction('aborted 1', false)
  await inTransaction('kept 1', true)
  await inTransaction('aborted 2', false)
  await inTransaction('aborted 3', false)
  await inTransaction('kept 2', true)
  const read = async (isolation: string) => {
    const source = kafkaSource.open(
      sourceConfig('kafka', { brokers: [(await kafka()).plaintext], topic, isolation, consumerGroup: uniqueName('group') }),
      sourceContext({ isBounded: true }),
    )
    onTestFinished(() => source.close())
    await source.connect()
    const values: string[] = []
    for await (const { messages } of source.read({ isSpent: false, room: async () => undefined }))
      values.push(...messages.map(({ raw }) => String(raw)))
    const last = await source.lag()
    return { values, last, source }
  }
  const kept = await read('committed')
  expect(kept.values).toEqual(['kept 1', 'kept 2'])
  expect((await read('uncommitted')).values).toEqual(['aborted 1', 'kept 1', 'aborted 2', 'aborted 3', 'kept 2'])
})
