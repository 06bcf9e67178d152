import { issueCertificate } from '@brokkr/runtime/certificates.ts'
import { startFaultProxy } from '@brokkr/testing/faults/fault-proxy.ts'
import { kafka, uniqueName } from '@brokkr/testing/servers/kafka.ts'
import { schemaRegistry } from '@brokkr/testing/servers/schema-registry.ts'
import { Producer } from '@platformatic/kafka'
import { expect, onTestFinished, test } from 'vitest'
import { newMessage } from '../../message/message.ts'
import type { Batch, Source } from '../connector.ts'
import { sinkConfig, sourceConfig } from '../test-parts/configs.ts'
import { endlessBudget, sinkContext, sourceContext } from '../test-parts/contexts.ts'
import { makeTopic } from '../test-parts/kafka-topics.ts'
import { compileAvro } from './avro/codec.ts'
import { openRegistry } from './avro/registry.ts'
import { kafkaSink, kafkaSource } from './index.ts'

const longMs = 300_000

const order = JSON.stringify({
  type: 'record',
  name: 'order',
  namespace: 'shop',
  fields: [
    { name: 'id', type: 'long' },
    { name: 'note', type: ['null', 'string'], default: null },
    { name: 'price', type: { type: 'bytes', logicalType: 'decimal', precision: 20, scale: 2 } },
    { name: 'at', type: { type: 'long', logicalType: 'timestamp-micros' } },
    { name: 'state', type: { type: 'enum', name: 'state', symbols: ['NEW', 'PAID'] } },
    { name: 'raw', type: 'bytes' },
    { name: 'day', type: { type: 'int', logicalType: 'date' } },
  ],
})
const text =
  '{"id":1152921504606846976,"note":"x","price":12345678901234567.89,"at":"2026-01-02T03:04:05.123456Z","state":"PAID","raw":"AAH/","day":"2026-02-28"}'

async function openSource(config: object): Promise<Source> {
  const source = kafkaSource.open(
    sourceConfig('kafka', { brokers: [(await kafka()).plaintext], consumerGroup: uniqueName('group'), format: 'avro', ...config }),
    sourceContext({ isBounded: true }),
  )
  onTestFinished(() => source.close())
  await source.connect()
  return source
}

async function openSink(config: object) {
  const sink = kafkaSink.open(sinkConfig('kafka', { brokers: [(await kafka()).plaintext], format: 'avro', ...config }), sinkContext())
  onTestFinished(() => sink.close())
  await sink.connect()
  return sink
}

async function readAll(source: Source): Promise<Batch[]> {
  const batches: Batch[] = []
  for await (const batch of source.read(endlessBudget)) batches.push(batch)
  return batches
}

const record = (json: string) => newMessage({ raw: Buffer.from(json), metadata: {}, position: 0, partition: 0 })
const printed = (batches: readonly Batch[]) => batches.flatMap(({ messages }) => messages).map(({ json }) => JSON.stringify(json))

async function sendRaw(topic: string, values: readonly Buffer[]): Promise<void> {
  const producer = new Producer({ clientId: 'test', bootstrapBrokers: [(await kafka()).plaintext] })
  await producer.send({ messages: values.map((value) => ({ topic, value })) })
  await producer.close()
}

test('[D88] Avro values become JSON; an unknown schema id is a fault of its message', {
  timeout: longMs,
}, async () => {
  const { url } = await schemaRegistry()
  const topic = await makeTopic()
  const writer = await openSink({ topic, avroSchema: order, schemaRegistry: { url } })
  await writer.write(
    [record(text), newMessage({ metadata: {}, position: 0, partition: 0 }), record(text.replace('"x"', 'null'))],
    new Map(),
  )
  await sendRaw(topic, [Buffer.from([0, 0x7f, 0xff, 0xff, 0xff, 1]), Buffer.from('no frame'), Buffer.from([0, 0, 0, 0])])

  const batches = await readAll(await openSource({ topic, schemaRegistry: { url } }))
  expect(printed(batches).slice(0, 3)).toEqual([text, undefined, text.replace('"x"', 'null')])
  const faults = batches.flatMap(({ messages, faults: found }) => messages.map((_message, index) => found?.get(index)?.message))
  expect(faults).toEqual([
    undefined,
    undefined,
    undefined,
    'schema id 2147483647 is not known to the registry',
    'the value is not framed with a schema id',
    'the value is not framed with a schema id',
  ])

  const wrapped = await readAll(await openSource({ topic, schemaRegistry: { url }, avroUnions: 'wrap' }))
  expect(wrapped[0]?.messages[0]?.json).toMatchObject({ note: { string: 'x' } })

  const [host, port] = new URL(url).host.split(':')
  const foreign = await issueCertificate({ commonName: 'localhost', usages: ['server'], hosts: ['localhost', '127.0.0.1'] })
  const front = await startFaultProxy({ target: { host: host!, port: Number(port) }, tls: foreign })
  onTestFinished(() => front.close())
  const secure = `https://localhost:${front.port}${new URL(url).pathname}`
  const untrusted = await openSource({ topic, schemaRegistry: { url: secure } })
  await expect(readAll(untrusted)).rejects.toMatchObject({
    class: 'config',
    message: expect.stringContaining('did not prove who it is') as string,
  })
  const skipping = await openSource({ topic, schemaRegistry: { url: secure, tls: { insecureSkipVerify: true } } })
  expect(printed(await readAll(skipping))[0]).toBe(text)
  const trusting = await openSource({ topic, schemaRegistry: { url: secure, tls: { ca: foreign.cert } } })
  expect(printed(await readAll(trusting))[0]).toBe(text)
})

test('a sink uses the latest schema of its subject and names a misfitting record', {
  timeout: longMs,
}, async () => {
  const { url } = await schemaRegistry()
  const topic = await makeTopic()
  const subject = uniqueName('subject')
  await expect(openSink({ topic, subject, schemaRegistry: { url } })).rejects.toMatchObject({
    class: 'config',
    message: expect.stringContaining(`subject ${subject} has no schema`) as string,
  })
  const registry = await openRegistry({ url }, sinkContext())
  const id = await registry.register(subject, order)
  expect(await registry.latest(subject)).toEqual({ id, texts: [order] })
  const writer = await openSink({ topic, subject, schemaRegistry: { url } })
  await writer.write([record(text)], new Map())
  const failure = writer.write([record(text), record(text.replace('"PAID"', '"SECRET"'))], new Map())
  await expect(failure).rejects.toMatchObject({ class: 'record', recordIndex: 1, message: '$.state does not fit shop.state' })
  expect(printed(await readAll(await openSource({ topic, schemaRegistry: { url } })))).toEqual([text])
})

test('without a registry values use the configured schema', { timeout: longMs }, async () => {
  const topic = await makeTopic()
  const writer = await openSink({ topic, avroSchema: order })
  await writer.write([record(text)], new Map())
  expect(printed(await readAll(await openSource({ topic, avroSchema: order })))).toEqual([text])
  const { url } = await schemaRegistry()
  const framed = await makeTopic()
  await (await openSink({ topic: framed, avroSchema: order, schemaRegistry: { url } })).write([record(text)], new Map())
  const narrow = JSON.stringify({
    type: 'record',
    name: 'order',
    namespace: 'shop',
    fields: [
      { name: 'id', type: 'long' },
      { name: 'more', type: 'string', default: 'd' },
    ],
  })
  expect(printed(await readAll(await openSource({ topic: framed, avroSchema: narrow, schemaRegistry: { url } })))).toEqual([
    '{"id":1152921504606846976,"more":"d"}',
  ])
})

test('a truncated body is a fault of its message', { timeout: longMs }, async () => {
  const { url } = await schemaRegistry()
  const registry = await openRegistry({ url }, sinkContext())
  const id = await registry.register(uniqueName('subject'), order)
  const codec = compileAvro([order])
  const body = codec.type.toBuffer(codec.fromJson(JSON.parse(text.replace('1152921504606846976', '1')) as never))
  const frame = Buffer.from([0, 0, 0, 0, 0])
  frame.writeInt32BE(id, 1)
  const topic = await makeTopic()
  await sendRaw(topic, [Buffer.concat([frame, body.subarray(0, 9)]), Buffer.concat([frame, body, Buffer.from([1])])])
  const [batch] = await readAll(await openSource({ topic, schemaRegistry: { url } }))
  expect([...(batch?.faults?.values() ?? [])].map(({ message }) => message)).toEqual(
    Array(2).fill('the value does not fit its Avro schema'),
  )
})

test('an unreachable registry is class transient', { timeout: longMs }, async () => {
  const away = await openRegistry({ url: 'http://127.0.0.1:1' }, sinkContext())
  await expect(away.byId(1)).rejects.toMatchObject({ class: 'transient', type: 'connection_error' })
})
