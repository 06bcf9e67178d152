// Recorded exchanges of the first version, sent again to a real broker in their order: clients and agents in the field get what
// they were used to, but for the differences that are listed by number. Operations of later releases say so in one word.
// long: replays all recorded exchanges
import { request as httpRequest } from 'node:http'
import { operationId } from '@brokkr/contract/endpoint.ts'
import { type EndpointName, endpoints } from '@brokkr/contract/endpoints.ts'
import type { WebhookDelivery } from '@brokkr/contract/webhook.ts'
import { startTestBroker, type TestBroker } from '@brokkr/testing/broker.ts'
import { privatePostgres } from '@brokkr/testing/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { loopbackAllowed, startReceiver } from '../webhooks/receiver.fixture.ts'
import { handlers } from './routes/index.ts'
import { notAvailable } from './routes/later.ts'
import { compareAnswer, type OurAnswer } from './v1-compare.fixture.ts'
import { type Bindings, createBindings, type Difference, type Exchange, readDifferences, readExchanges } from './v1-exchange.fixture.ts'
import { expectationOf } from './v1-expectation.fixture.ts'

const later = new Set(
  (Object.keys(endpoints) as EndpointName[]).filter((name) => handlers[name] === notAvailable).map((name) => operationId(name)),
)

/** What follows from operations of later releases: their effects are missing in lists of others. */
const withoutThem: readonly (Difference & { readonly needs: string })[] = [
  { id: 'l1', seq: [766], field: 'status', ours: '403 template_not_accessible', why: 'no template is looked up', needs: 'get_template' },
  { id: 'l2', seq: [1222], field: 'body', ours: 'without <uuid:168>', why: 'told by socket', needs: 'list_ws_connections' },
  { id: 'l3', seq: [1223], field: 'body', ours: 'checked_at any', why: 'told by socket', needs: 'list_ws_connections' },
  { id: 'l4', seq: [1224], field: 'body', ours: 'ws_connected any', why: 'told by socket', needs: 'list_ws_connections' },
  { id: 'l5', seq: [1224], field: 'body', ours: 'connected_since any', why: 'told by socket', needs: 'list_ws_connections' },
  { id: 'l6', seq: [1224], field: 'body', ours: 'k8s_reachable any', why: 'told by socket', needs: 'list_ws_connections' },
]

/** What follows from the listed differences, or from what was added since, in exchanges that the list does not name. */
const consequences: readonly Difference[] = [
  { id: 'c1', seq: [371], field: 'body', ours: 'generator_id any', why: 'follows from d37: 370 was refused' },
  { id: 'c2', seq: [425, 484], field: 'status', ours: '200', why: 'follows from d41: agent and stack share the annotation k2' },
  { id: 'c3', seq: [600], field: 'status', ours: '200', why: 'the id sent with 567 is the id of the event, which makes it idempotent' },
  { id: 'c4', seq: [977], field: 'body', ours: 'with 5 more', why: 'more events are told of, as d62 says' },
]

test('every recorded exchange of an operation that exists is answered as the first version did', { timeout: 300_000 }, async () => {
  const server = await privatePostgres()
  const receiver = await startReceiver()
  receiver.answer = (response, { path }) => void (path === '/fail' ? response.writeHead(500).end('no thanks') : response.end('ok'))
  const broker = await startTestBroker({
    databaseUrl: (await server.database()).url,
    env: {
      BROKKR__BROKER__AGENT_SELF_REGISTRATION: 'true',
      ...loopbackAllowed,
      BROKKR__BROKER__WEBHOOK_DELIVERY_INTERVAL_SECONDS: '0.2',
      // Each exchange comes from an address of its own: failed sign-ins of one address are slowed down.
      BROKKR__SERVER__TRUSTED_PROXIES: '127.0.0.1',
    },
  })
  try {
    const exchanges = readExchanges()
    const differences = [...readDifferences(), ...consequences, ...withoutThem.filter(({ needs }) => later.has(needs))]
    const successOf = (op: string, status: number) => exchanges.find((one) => one.op === op && one.status === status)
    const startedAt = new Date().toISOString()
    const bindings = createBindings({ '<pak:admin>': broker.adminPak }, () => startedAt)
    const faults: string[] = []
    const seen = { agreed: 0, later: 0, needsLater: 0, unsent: 0 }
    /** Placeholder → the operation of a later release that would have bound it. */
    const missing = new Map<string, string>()
    for (const exchange of exchanges) {
      const tell = (fault: string) => faults.push(`${exchange.seq} ${exchange.op} (${exchange.case}, ${exchange.as}): ${fault}`)
      const leftOut = (op: string) => placeholdersIn(answerOf(exchange)).forEach((name) => bindings.get(name) ?? missing.set(name, op))
      const expected = expectationOf(exchange, differences, successOf)
      const request = bindings.fill(withReceiver(requestOf(exchange), receiver.url))
      if (exchange.as === 'broker' || expected.status === null) seen.unsent += 1
      else if ('unbound' in request) {
        const cause = missing.get(request.unbound)
        if (cause === undefined) tell(`nothing is bound to ${request.unbound}`)
        else leftOut(cause)
        seen.needsLater += 1
      } else {
        if (exchange.op === 'readyz' && exchange.case === 'database stopped') {
          await server.stop()
          await waitFor('the broker to notice', async () => (await send(broker.url, exchange)).status === 503)
        }
        await stateFor(broker, exchange, bindings)
        const ours = await send(broker.url, { ...exchange, ...(request.value as object) })
        if (ours.status === 501 && later.has(exchange.op)) {
          leftOut(exchange.op)
          seen.later += 1
          continue
        }
        const found = compareAnswer(bindings, expected, ours)
        found.forEach(tell)
        if (found.length === 0) seen.agreed += 1
      }
    }
    expect(faults.join('\n')).toBe('')
    // Nothing falls between: whatever was not compared needs an operation of a later release, or is not sent on purpose.
    const ofLater = exchanges.filter(({ op }) => later.has(op)).length
    expect(seen.agreed + seen.later + seen.needsLater + seen.unsent).toBe(exchanges.length)
    expect(seen.agreed).toBeGreaterThanOrEqual(exchanges.length - ofLater - seen.unsent)
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

const answerOf = ({ response_body, response_text }: Exchange) => ({ response_body, response_text })
const placeholdersIn = (value: object): string[] => JSON.stringify(value).match(/<(?:uuid|pak):[^>]+>/g) ?? []

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
