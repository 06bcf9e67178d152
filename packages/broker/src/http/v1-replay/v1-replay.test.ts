// Recorded exchanges of the first version, sent again to a real broker in their order: clients and agents in the field get what
// they were used to, but for the differences that are listed by number.
// long: replays all recorded exchanges
import { mkdtemp, writeFile } from 'node:fs/promises'
import { request as httpRequest } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { WebhookDelivery } from '@brokkr/contract/webhooks/subscription.ts'
import { startTestBroker, type TestBroker } from '@brokkr/testing/broker.ts'
import { privatePostgres } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, onTestFinished, test } from 'vitest'
import { loopbackAllowed, startReceiver } from '../../webhooks/delivery/receiver.fixture.ts'
import { compareAnswer, type OurAnswer } from './v1-compare.fixture.ts'
import { type Bindings, createBindings, type Difference, type Exchange, readDifferences, readExchanges } from './v1-exchange.fixture.ts'
import { expectationOf } from './v1-expectation.fixture.ts'
import { createReplaySockets } from './v1-sockets.fixture.ts'

/** What follows from the listed differences, or from what was added since, in exchanges that the list does not name. */
const consequences: readonly Difference[] = [
  { id: 'c1', seq: [371], field: 'body', ours: 'generator_id any', why: 'follows from d37: 370 was refused' },
  { id: 'c2', seq: [425, 484], field: 'status', ours: '200', why: 'follows from d41: agent and stack share the annotation k2' },
  { id: 'c3', seq: [600], field: 'status', ours: '200', why: 'the id sent with 567 is the id of the event, which makes it idempotent' },
  { id: 'c4', seq: [977], field: 'body', ours: 'with 8 more', why: 'more events are told of, as d62 says' },
]

test('every recorded v1 exchange gets the same response', { timeout: 300_000 }, async () => {
  const server = await privatePostgres()
  const receiver = await startReceiver()
  receiver.answer = (response, { path }) => void (path === '/fail' ? response.writeHead(500).end('no thanks') : response.end('ok'))
  const configFile = join(await mkdtemp(join(tmpdir(), 'brokkr-replay-')), 'broker.toml')
  await writeFile(configFile, '')
  const broker = await startTestBroker({
    databaseUrl: (await server.database()).url,
    env: {
      BROKKR__BROKER__AGENT_SELF_REGISTRATION: 'true',
      ...loopbackAllowed,
      BROKKR__BROKER__WEBHOOK_DELIVERY_INTERVAL_SECONDS: '0.2',
      // Each exchange comes from an address of its own: failed sign-ins of one address are slowed down.
      BROKKR__SERVER__TRUSTED_PROXIES: '127.0.0.1',
      BROKKR_CONFIG_FILE: configFile,
      BROKKR_CONFIG_WATCHER_ENABLED: 'false',
    },
  })
  try {
    const exchanges = readExchanges()
    const differences = [...readDifferences(), ...consequences]
    const successOf = (op: string, status: number) => exchanges.find((one) => one.op === op && one.status === status)
    const startedAt = new Date().toISOString()
    const bindings = createBindings({ '<pak:admin>': broker.adminPak }, () => startedAt)
    const sockets = createReplaySockets(broker, bindings)
    onTestFinished(() => sockets.close())
    const faults: string[] = []
    const seen = { agreed: 0, unsent: 0 }
    for (const exchange of exchanges) {
      const tell = (fault: string) => faults.push(`${exchange.seq} ${exchange.op} (${exchange.case}, ${exchange.as}): ${fault}`)
      const expected = expectationOf(exchange, differences, successOf)
      const request = bindings.fill(withReceiver(requestOf(exchange), receiver.url))
      if (exchange.as === 'broker' || expected.status === null) seen.unsent += 1
      else if ('unbound' in request) tell(`nothing is bound to ${request.unbound}`)
      else {
        if (exchange.op === 'readyz' && exchange.case === 'database stopped') {
          await server.stop()
          await waitFor('the broker to notice', async () => (await send(broker.url, exchange)).status === 503)
        }
        await stateFor(broker, exchange, bindings)
        await sockets.prepare(exchange.seq)
        const configText = configTexts[exchange.seq]
        if (configText !== undefined) await writeFile(configFile, configText)
        const ours = await send(broker.url, { ...exchange, ...(request.value as object) })
        const found = compareAnswer(bindings, expected, ours)
        found.forEach(tell)
        if (found.length === 0) seen.agreed += 1
      }
    }
    expect(faults.join('\n')).toBe('')
    expect(seen.agreed + seen.unsent).toBe(exchanges.length)
  } finally {
    await broker.kill()
    await server.stop()
    await receiver.close()
  }
})

/** The receiver of the record, where it listens now. */
const withReceiver = (request: ReturnType<typeof requestOf>, url: string) =>
  JSON.parse(JSON.stringify(request).replaceAll('http://receiver.test', url)) as typeof request

/** Exchanges that show what was done meanwhile: they are sent once it is. */
async function stateFor({ admin }: TestBroker, { seq }: Exchange, bindings: Bindings): Promise<void> {
  const isOver = ({ status }: WebhookDelivery) => status === 'success' || status === 'dead'
  const listed = async (hook: string) => admin.listDeliveries({ params: { id: bindings.get(hook)! } })
  const awaited: Readonly<Record<number, () => Promise<boolean>>> = {
    942: async () => (await admin.getWorkOrder({ params: { id: bindings.get('<uuid:100>')! } })).status === 'PENDING',
    1079: async () => {
      const both = [...(await listed('<uuid:105>')), ...(await listed('<uuid:107>'))]
      return both.length === 3 && both.every(isOver)
    },
    1102: async () => (await listed('<uuid:106>')).some(({ status, attempts }) => status === 'pending' && attempts === 1),
    1154: async () => (await listed('<uuid:127>')).every(isOver),
  }
  const isThere = awaited[seq]
  if (isThere !== undefined) await waitFor(`what exchange ${seq} shows`, isThere)
}

/** Content of the configuration file from an exchange on. */
const configTexts: Readonly<Record<number, string>> = {
  1258: '[broker]\nwebhook_delivery_batch_size = 40\nmanifest_validation = "lenient"\naudit_log_retention_days = 80\n',
  1259: '[broker\nwebhook_delivery_batch_size = "many"\n',
}

function requestOf({ path, request_headers, request_body, request_text }: Exchange) {
  return { path, request_headers, request_body, request_text }
}

async function send(url: string, exchange: Exchange): Promise<OurAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<OurAnswer>()
  const body = bodyOf(exchange)
  const headers = {
    'user-agent': 'replay',
    'x-forwarded-for': addressOf(exchange.seq),
    ...(body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }),
    ...exchange.request_headers,
  }
  const { hostname, port } = new URL(url)
  const sent = httpRequest({ hostname, port, path: pathOf(exchange), method: exchange.method, headers }, (response) => {
    const chunks: Buffer[] = []
    response.on('data', (chunk: Buffer) => chunks.push(chunk)).once('error', reject)
    response.once('end', () => {
      const text = Buffer.concat(chunks).toString()
      resolve({ status: response.statusCode ?? 0, headers: response.headers as OurAnswer['headers'], text })
    })
  })
  sent.once('error', reject).end(body)
  return promise
}

/** The record says of one id that it was sent in capitals. */
const pathOf = ({ path }: Exchange): string =>
  path.replace(/([0-9a-f-]{36}) \(in upper case\)/, (_, id: string) => id.toUpperCase()).replace(/[^\x21-\x7e]+/g, encodeURIComponent)

const addressOf = (seq: number): string => `10.1.${seq >> 8}.${seq & 255}`

function bodyOf({ request_body: value, request_text: text }: Exchange): string | undefined {
  if (text === undefined) return value === undefined ? undefined : JSON.stringify(value)
  const [, bytes] = /^<(\d+) bytes>$/.exec(text) ?? []
  return bytes === undefined ? text : 'x'.repeat(Number(bytes))
}
