// Forwarding over HTTP: a real broker, a real preview program, and an upstream that records requests and misbehaves on demand.
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { freePort } from '@brokkr/local/supervisor/free-ports.ts'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { Secret } from '@brokkr/runtime/secret.ts'
import { startTestBroker, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { startProgram } from '@brokkr/testing/program.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { ask } from '../http/server/http-call.fixture.ts'
import { createForwarder } from './forwarder.ts'

const key = 'the-vouching-key-of-this-broker-1234'

interface SeenRequest {
  readonly method: string
  readonly url: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}
let seen: SeenRequest[] = []
let respond: (response: ServerResponse, request: SeenRequest) => void
const upstream = createServer((from, to) => {
  const chunks: Buffer[] = []
  from.on('data', (chunk: Buffer) => chunks.push(chunk))
  from.on('end', () => {
    const request = { method: from.method ?? '', url: from.url ?? '', headers: from.headers, body: Buffer.concat(chunks).toString() }
    seen.push(request)
    respond(to, request)
  })
})

const upstreamUrl = () => `http://127.0.0.1:${(upstream.address() as AddressInfo).port}/below`

let broker: TestBroker
let unset: TestBroker
beforeAll(async () => {
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve))
  const previewPort = await freePort()
  const preview = await startProgram({
    name: 'preview',
    main: 'packages/cli/src/main.ts',
    args: ['dataflow', 'preview', '--port', String(previewPort)],
    env: {},
  })
  broker = await startTestBroker({
    env: {
      BROKKR__BROKER__PIPELINES_URL: upstreamUrl(),
      BROKKR__BROKER__PIPELINES_KEY: key,
      BROKKR__BROKER__DATAFLOW_PREVIEW_URL: `http://127.0.0.1:${previewPort}`,
      BROKKR__BROKER__FORWARD_SECONDS: '300',
      BROKKR__LIMITS__HANDLER_SECONDS: '300',
    },
  })
  // Port 1 is reserved for a service that no longer exists, so nothing listens there and no program is assigned it.
  const absent = 'http://127.0.0.1:1'
  unset = await broker.sibling({ BROKKR__BROKER__PIPELINES_URL: absent, BROKKR__BROKER__DATAFLOW_PREVIEW_URL: absent })
  await waitFor('the preview program', async () => (await fetch(`http://127.0.0.1:${previewPort}/healthz`)).ok)
  return async () => {
    await Promise.all([broker.kill(), unset.kill(), preview.kill()])
  }
}, 240_000)
afterAll(() => {
  upstream.closeAllConnections()
  upstream.close()
})
beforeEach(() => {
  seen = []
  respond = (to) => to.writeHead(200, { 'content-type': 'application/json' }).end('[]')
})

const decision = { decision: 'approve', key: 'k1' }
const path = '/promotions/shop/checkout-prod-1/decision'

test('a read carries path, query and identity, and nothing else of the caller', async () => {
  respond = (to) => to.writeHead(200, { 'x-next-cursor': 'bmV4dA', 'set-cookie': 'a=b', 'x-other': '1' }).end('[{"kind":"Pipeline"}]')
  const answer = await ask(broker, 'GET /promotions?pipeline=checkout&limit=5', {
    pak: broker.adminPak,
    headers: { cookie: 'brokkr_session=secret', 'x-approver': 'somebody', 'x-forwarded-for': '1.2.3.4' },
  })
  expect([answer.status, answer.json]).toEqual([200, [{ kind: 'Pipeline' }]])
  expect([answer.header('x-next-cursor'), answer.header('set-cookie'), answer.header('x-other')]).toEqual(['bmV4dA', null, null])
  const [request] = seen
  expect(request?.url).toBe('/below/promotions?pipeline=checkout&limit=5')
  expect(request?.headers['x-approver']).toBe('configured')
  expect(request?.headers).not.toHaveProperty('authorization')
  expect(request?.headers).not.toHaveProperty('cookie')
  expect(request?.headers).not.toHaveProperty('x-forwarded-for')
})

test('a decision is signed for the caller, audited once, and repeated by its idempotency key without a second request', async () => {
  respond = (to) => to.writeHead(200).end('{"approvals":1,"required":2}')
  const name = unique('approver')
  const approver = await broker.admin.createAdminPak({ body: { name, scope: ['approve'] } })
  const headers = { 'idempotency-key': unique('key') }
  const first = await ask(broker, `POST ${path}`, { pak: approver.pak, body: decision, headers })
  expect([first.status, first.json]).toEqual([200, { approvals: 1, required: 2 }])
  expect((await ask(broker, `POST ${path}`, { pak: approver.pak, body: decision, headers })).json).toEqual(first.json)
  expect(seen.map(({ method, url, body }) => [method, url, JSON.parse(body)])).toEqual([['POST', `/below${path}`, decision]])
  expect(seen[0]?.headers).toMatchObject({
    'x-approver': name,
    'x-signature': expect.stringMatching(/^sha256=[0-9a-f]{64}$/) as string,
    'x-signature-nonce': expect.stringMatching(/^[0-9a-f]{32}$/) as string,
  })
  const { logs } = await broker.admin.listAuditLogs({ query: { action: 'promotion.approved' } })
  expect(logs.filter(({ actor_id }) => actor_id === approver.id)).toMatchObject([
    { resource_type: 'promotion', details: { namespace: 'shop', name: 'checkout-prod-1', key: 'k1' } },
  ])
})

test('a change whose answer was lost is repeated under the same key', async () => {
  const order = { revision: '1.2.3', kind: 'manual' }
  const started = { number: 7, revision: '1.2.3', startedAt: '2026-01-01T00:00:00Z', cause: { kind: 'manual' }, scope: [] }
  const headers = { 'idempotency-key': unique('key') }
  respond = (to) => to.destroy()
  const runs = 'POST /pipelines/shop/checkout/runs'
  expect((await ask(broker, runs, { pak: broker.adminPak, body: order, headers })).code).toBe('pipelines_unavailable')
  respond = (to) => to.writeHead(201).end(JSON.stringify(started))
  const again = await ask(broker, runs, { pak: broker.adminPak, body: order, headers })
  expect([again.status, again.json]).toEqual([201, started])
  const [first, second] = seen.map((request) => request.headers['idempotency-key'])
  expect([first, second]).toEqual([expect.stringMatching(/^[0-9a-f]{64}$/), first])
})

test('two callers of one name that send the same key do not share it', async () => {
  respond = (to) => to.destroy()
  const name = unique('twin')
  const repeated = unique('key')
  for (const _twin of ['first', 'second']) {
    const { pak } = await broker.admin.createAdminPak({ body: { name, scope: ['deploy'] } })
    const order = { revision: '1.2.3', kind: 'manual' }
    await ask(broker, 'POST /pipelines/shop/checkout/runs', { pak, body: order, headers: { 'idempotency-key': repeated } })
  }
  const keys = seen.map((request) => request.headers['idempotency-key'])
  expect([keys.length, new Set(keys).size]).toEqual([2, 2])
})

test('a key that the program knows with another body is answered as reused', async () => {
  respond = (to) => to.writeHead(422).end('Idempotency-Key was used for another request\n')
  const body = { revision: '1.2.3', kind: 'manual' }
  const headers = { 'idempotency-key': unique('key') }
  const answer = await ask(broker, 'POST /pipelines/shop/checkout/runs', { pak: broker.adminPak, body, headers })
  expect([answer.status, answer.code]).toEqual([422, 'idempotency_key_reused'])
})

test('a PAK without the verb of a change is refused before anything is sent', async () => {
  const scoped = await broker.admin.createAdminPak({ body: { name: unique('deployer'), scope: ['deploy', 'read'] } })
  const answer = await ask(broker, `POST ${path}`, { pak: scoped.pak, body: decision })
  expect([answer.status, answer.code, seen]).toEqual([403, 'scope_denied', []])
})

test('a name with dots and hyphens reaches the program as it is', async () => {
  await ask(broker, 'GET /pipelines/shop-1/checkout-prod.v2/explain?diff=true', { pak: broker.adminPak })
  expect(seen.map(({ url }) => url)).toEqual(['/below/pipelines/shop-1/checkout-prod.v2/explain?diff=1'])
})

test.each([
  '/pipelines/shop/%2e%2e/explain',
  '/pipelines/%2e%2e/%2e%2e/explain',
  '/pipelines/shop/%2e/explain',
  '/pipelines/shop/..%2F..%2Fhealthz%3Fa/explain',
  '/pipelines/a.b/checkout/explain',
  '/pipelines/shop/Checkout/explain',
])('%s names no object and is refused before anything is sent', async (wrongPath) => {
  const { status } = await sendRaw(`/api/v1${wrongPath}`)
  expect([status, seen]).toEqual([400, []])
})

/** Sends the path as it is; fetch would resolve dots. */
async function sendRaw(rawPath: string): Promise<{ status: number | undefined }> {
  const { hostname, port } = new URL(broker.url)
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number | undefined }>()
  const sent = httpRequest({ hostname, port, path: rawPath, headers: { authorization: `Bearer ${broker.adminPak}` } }, (response) => {
    response.resume()
    resolve({ status: response.statusCode })
  })
  sent.on('error', reject).end()
  return promise
}

test('an abort is answered without a body, a retry of a blocked promotion with 202', async () => {
  respond = (to) => to.writeHead(202).end()
  const abort = await ask(broker, 'POST /promotions/shop/p/abort', { pak: broker.adminPak })
  expect([abort.status, abort.text]).toEqual([202, ''])
  const retry = await ask(broker, 'POST /promotions/shop/p/retry', { pak: broker.adminPak })
  expect([retry.status, retry.json]).toEqual([202, {}])
})

test('an upstream that does not answer in time is 503', async () => {
  respond = () => undefined
  const settings = { pipelines_url: upstreamUrl(), pipelines_key: new Secret(key), dataflow_preview_url: null, forward_seconds: 1 }
  const forwarder = createForwarder({ clock: systemClock }, { settings, userAgent: 'test' })
  const signal = new AbortController().signal
  const silent = forwarder.toPipelines({ method: 'GET', path: ['pipelines'], approver: 'a', signal })
  await expect(silent).rejects.toMatchObject({ code: 'pipelines_unavailable', status: 503 })
  await forwarder.close()
})

test('an upstream that answers too much or redirects is 503', async () => {
  respond = (to) => to.writeHead(200).end('x'.repeat(17 * 1024 * 1024))
  expect((await ask(broker, 'GET /pipelines', { pak: broker.adminPak })).code).toBe('pipelines_unavailable')
  respond = (to) => to.writeHead(302, { location: `${broker.url}/api/v1/admin/config` }).end()
  expect((await ask(broker, 'GET /pipelines', { pak: broker.adminPak })).code).toBe('pipelines_unavailable')
})

test('a program whose address is unset is 503 with its own code', async () => {
  const settings = { pipelines_url: null, pipelines_key: null, dataflow_preview_url: null, forward_seconds: 2 }
  const forwarder = createForwarder({ clock: systemClock }, { settings, userAgent: 'test' })
  const signal = AbortSignal.timeout(60_000)
  const pipelines = forwarder.toPipelines({ method: 'GET', path: ['pipelines'], approver: 'a', signal })
  await expect(pipelines).rejects.toMatchObject({ code: 'pipelines_unavailable', status: 503 })
  await expect(forwarder.toPreview({ body: '{}', signal })).rejects.toMatchObject({ code: 'preview_unavailable', status: 503 })
})

test('a program that does not run is 503 with its own code', async () => {
  expect(await ask(unset, 'GET /pipelines', { pak: broker.adminPak })).toMatchObject({ status: 503, code: 'pipelines_unavailable' })
  const preview = await ask(unset, 'POST /dataflow/preview', { pak: broker.adminPak, body: { flow: {}, samples: [] } })
  expect(preview).toMatchObject({ status: 503, code: 'preview_unavailable' })
})

const flow = {
  apiVersion: 'dataflow.brokkr.io/v1',
  kind: 'DataFlow',
  metadata: { name: 'orders' },
  spec: {},
}

test('a preview reaches the preview program, and a wrong flow is 422 with its problems', async () => {
  const answer = await ask(broker, 'POST /dataflow/preview', { pak: broker.adminPak, body: { flow, samples: ['{"a":1}'] } })
  expect([answer.status, answer.code]).toEqual([422, 'validation_failed'])
  const { details } = answer.json as { details: { problems: string[] } }
  expect(details.problems.length).toBeGreaterThan(0)
  const large = { flow, samples: Array.from({ length: 20 }, () => 'x'.repeat(64 * 1024)) }
  const refused = await ask(broker, 'POST /dataflow/preview', { pak: broker.adminPak, body: large })
  expect([refused.status, refused.code]).toEqual([413, 'payload_too_large'])
})
