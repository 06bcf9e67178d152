import { connect } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { isSameProcess } from '@brokkr/local/supervisor/process-table.ts'
import { expect, onTestFinished, test } from 'vitest'
import { startFaultProxy } from '../faults/fault-proxy.ts'
import { kafka, privateKafka, uniqueName } from './kafka.ts'
import { kafkaProperties } from './kafka-properties.ts'
import { callServers } from './owner/client.ts'
import { schemaRegistry } from './schema-registry.ts'

/** Several minutes when the machine is busy and nothing was prepared. */
const startMs = 600_000

test('concurrent requests share one Kafka, which listens on every advertised listener', { timeout: startMs }, async () => {
  const [first, second] = await Promise.all([kafka(), kafka()])
  expect(second).toEqual(first)
  for (const address of [first.plaintext, first.sasl, first.tls, first.mutualTls, first.saslTls]) await reach(address)
  expect(await nameProved(first.saslTls, first.caPem)).toBe('localhost')
})

test('the schema registry answers in the form of Confluent', { timeout: startMs }, async () => {
  const { url } = await schemaRegistry()
  const answer = await fetch(`${url}/schemas/ids/999999`)
  expect(answer.status).toBe(404)
  expect(await answer.json()).toMatchObject({ error_code: 40403 })
  const subject = uniqueName()
  const body = JSON.stringify({ schema: '"string"' })
  const headers = { 'content-type': 'application/vnd.schemaregistry.v1+json' }
  expect(await (await fetch(`${url}/subjects/${subject}/versions`, { method: 'POST', headers, body })).json()).toEqual({
    id: expect.any(Number) as number,
  })
})

test('a Kafka of a test can be killed and started again, behind a proxy or not', { timeout: startMs }, async () => {
  const fronts: number[] = []
  const front = async (target: { host: string; port: number }) => {
    const proxy = await startFaultProxy({ target })
    onTestFinished(() => proxy.close())
    fronts.push(proxy.port)
    return proxy.port
  }
  const own = await privateKafka({ front })
  expect(own.address.fronted).toBe(`127.0.0.1:${fronts[0]}`)
  const before = own.process
  await own.kill('SIGKILL')
  expect(isSameProcess(before.pid, before.startTime)).toBe(false)
  await expect(reach(own.address.plaintext)).rejects.toThrow('ECONNREFUSED')
  await own.start()
  await reach(own.address.plaintext)
  const { processes } = await callServers('status', {})
  expect(processes).toContainEqual(own.process)
  await own.stop()
})

test('keys and certificates are in the settings with escaped line breaks', () => {
  const ports = { controller: 1, plaintext: 2, tls: 3, mutualTls: 4, sasl: 5, saslTls: 6, front: 7 }
  const server = { certPem: 'C1\nC2\n', keyPem: 'K\n' }
  const text = kafkaProperties({ ports, server, caPem: 'A\n', plain: { username: 'u', password: 'p' }, settings: { extra: '1' } })
  expect(text).toContain('listener.name.tls.ssl.keystore.certificate.chain=C1\\nC2\\n\n')
  expect(text).toContain('extra=1\n')
  expect(text).not.toContain('FRONT://')
})

function reach(address: string): Promise<void> {
  const [host = '', port] = address.split(':')
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port: Number(port) })
    socket.once('error', reject).once('connect', () => {
      socket.destroy()
      resolve()
    })
  })
}

function nameProved(address: string, ca: string): Promise<string> {
  const [host = '', port] = address.split(':')
  return new Promise((resolve, reject) => {
    const socket = connectTls({ host, port: Number(port), ca, servername: host })
    socket.once('error', reject).once('secureConnect', () => {
      const { CN } = socket.getPeerCertificate().subject
      socket.destroy()
      resolve(String(CN))
    })
  })
}
