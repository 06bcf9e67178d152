import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { issueCertificate } from '@brokkr/runtime/certificates.ts'
import { kafka, uniqueName } from '@brokkr/testing/servers/kafka.ts'
import { expect, onTestFinished, test } from 'vitest'
import { newMessage } from '../../message/message.ts'
import type { ConnectorError } from '../connector.ts'
import { sinkConfig, sourceConfig } from '../test-parts/configs.ts'
import { readCount, sinkContext, sourceContext } from '../test-parts/contexts.ts'
import { makeTopic } from '../test-parts/kafka-topics.ts'
import { kafkaSink, kafkaSource } from './index.ts'

const longMs = 300_000
type Address = Awaited<ReturnType<typeof kafka>>
const record = () => newMessage({ raw: Buffer.from('{"a":1}'), metadata: {}, position: 0, partition: 0 })

async function throughTopic(place: object): Promise<string> {
  const topic = await makeTopic()
  const writer = kafkaSink.open(sinkConfig('kafka', { ...place, topic }), sinkContext())
  onTestFinished(() => writer.close())
  await writer.connect()
  await writer.write([record()], new Map())
  const reader = kafkaSource.open(sourceConfig('kafka', { ...place, topic, consumerGroup: uniqueName('group') }), sourceContext())
  onTestFinished(() => reader.close())
  await reader.connect()
  const [message] = await readCount(reader, 1)
  return String(message?.raw)
}

const ways: [string, (at: Address) => object][] = [
  ['SSL with a given authority', (at) => ({ brokers: [at.tls], tls: { ca: at.caPem } })],
  ['SSL without verification', (at) => ({ brokers: [at.tls], tls: { insecureSkipVerify: true } })],
  [
    'SSL with a client certificate',
    (at) => ({ brokers: [at.mutualTls], tls: { ca: at.caPem, cert: at.clientCertPem, key: at.clientKeyPem } }),
  ],
  ['SASL_PLAINTEXT with PLAIN', (at) => ({ brokers: [at.sasl], sasl: { ...at.plain } })],
  ['SASL_PLAINTEXT with SCRAM-SHA-256', (at) => ({ brokers: [at.sasl], sasl: { mechanism: 'scram-sha-256', ...at.scram } })],
  ['SASL_PLAINTEXT with SCRAM-SHA-512', (at) => ({ brokers: [at.sasl], sasl: { mechanism: 'scram-sha-512', ...at.scram } })],
  ['SASL_SSL with PLAIN', (at) => ({ brokers: [at.saslTls], tls: { ca: at.caPem }, sasl: { ...at.plain } })],
]

test.each(ways)('%s', { timeout: longMs }, async (_name, place) => {
  expect(await throughTopic(place(await kafka()))).toBe('{"a":1}')
})

test('[D86] SASL_SSL with SCRAM-SHA-512 connects; a wrong password is class config', {
  timeout: longMs,
}, async () => {
  const at = await kafka()
  const place = { brokers: [at.saslTls], securityProtocol: 'SASL_SSL', tls: { ca: at.caPem } }
  expect(await throughTopic({ ...place, sasl: { mechanism: 'scram-sha-512', ...at.scram } })).toBe('{"a":1}')
  const wrong = {
    ...place,
    topic: await makeTopic(),
    sasl: { mechanism: 'scram-sha-512', username: at.scram.username, password: 'wrong-password-1' },
  }
  for (const failure of [
    await refusalOf(kafkaSink.open(sinkConfig('kafka', wrong), sinkContext())),
    await refusalOf(kafkaSource.open(sourceConfig('kafka', wrong), sourceContext())),
  ]) {
    expect(failure).toMatchObject({ class: 'config', type: 'auth_error' })
    expect(JSON.stringify(failure) + failure.message + String(failure.cause)).not.toContain('wrong-password-1')
  }
})

test('certificates are read from files, and a missing file is named', { timeout: longMs }, async () => {
  const at = await kafka()
  const dir = await mkdtemp(join(tmpdir(), 'brokkr-tls-'))
  onTestFinished(() => rm(dir, { recursive: true, force: true }))
  await writeFile(join(dir, 'ca.pem'), at.caPem)
  expect(await throughTopic({ brokers: [at.tls], tls: { caFile: join(dir, 'ca.pem') } })).toBe('{"a":1}')
  const missing = kafkaSink.open(
    sinkConfig('kafka', { brokers: [at.tls], topic: 't', tls: { caFile: join(dir, 'none.pem') } }),
    sinkContext(),
  )
  await expect(missing.connect()).rejects.toMatchObject({
    class: 'config',
    message: expect.stringContaining('none.pem cannot be read: ENOENT') as string,
  })
})

const otherCa = await issueCertificate({ commonName: 'other', isCa: true })
const refusals: [string, (at: Address) => object][] = [
  ['an authority that signed nothing here', (at) => ({ brokers: [at.tls], tls: { ca: otherCa.cert } })],
  [
    'the same, and skipping verification does not help',
    (at) => ({
      brokers: [at.tls],
      tls: { insecureSkipVerify: true, ca: otherCa.cert },
    }),
  ],
  ['no authority', (at) => ({ brokers: [at.tls], tls: {} })],
]

test.each(refusals)('a server with an invalid certificate is rejected: %s', { timeout: longMs }, async (_name, place) => {
  const opened = kafkaSink.open(sinkConfig('kafka', { ...place(await kafka()), topic: await makeTopic() }), sinkContext())
  expect(await refusalOf(opened)).toMatchObject({ class: 'config' })
})

test('an unreachable server is class transient', { timeout: longMs }, async () => {
  const opened = kafkaSink.open(sinkConfig('kafka', { brokers: ['127.0.0.1:1'], topic: 't' }), sinkContext())
  expect(await refusalOf(opened)).toMatchObject({ class: 'transient', type: 'connection_error' })
})

async function refusalOf(opened: { connect(): Promise<unknown>; close(): Promise<void> }): Promise<ConnectorError> {
  onTestFinished(() => opened.close())
  return opened.connect().then(
    () => {
      throw new Error('it connected')
    },
    (error: unknown) => error as ConnectorError,
  )
}
