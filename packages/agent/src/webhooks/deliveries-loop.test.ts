import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { allowPrivateNetworks } from '@brokkr/runtime/http-client/address.ts'
import { createOutbound, type OutboundOptions } from '@brokkr/runtime/http-client/outbound-client.ts'
import { createLog, silentLog } from '@brokkr/runtime/logging/log.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { deliveryReported, recordedDelivery } from '../test-parts/recorded-orders.ts'
import { type Answering, closeAfter, json, scriptedBroker } from '../test-parts/scripted-broker.ts'
import { deliveriesLoop } from './deliveries-loop.ts'

const id = '0e000000-0000-4000-8000-000000000123'

async function delivering(
  deliveries: readonly object[],
  allow: OutboundOptions['allow'],
  lookup?: (host: string) => Promise<readonly string[]>,
) {
  const lines: string[] = []
  const server = await scriptedBroker((_request, response, url) =>
    url.pathname.endsWith('/pending') ? json(response, 200, deliveries) : json(response, 200, deliveryReported(id)),
  )
  const outbound = createOutbound(lookup ? { lookup } : {}, { allow: allow ?? {}, schemes: ['https:', 'http:'] })
  closeAfter(() => outbound.close())
  const log = createLog({ name: 'test', level: 'trace', destination: { write: (line: string) => void lines.push(line) } })
  const loop = deliveriesLoop({
    client: (await server.connect()).client,
    agentId: 'a' as never,
    outbound,
    check: () => undefined,
    clock,
    log,
    everyMs: 1_000,
  })
  await loop.run(AbortSignal.timeout(30_000))
  await loop.whenIdle()
  const results = server.requests
    .filter(({ url }) => url.pathname.endsWith('/result'))
    .map(({ body }) => JSON.parse(body) as Record<string, unknown>)
  return { results, log: () => lines.join('\n') }
}
const anywhere = { classes: ['loopback'] as const }
const good: Answering = (_request, response) => void response.writeHead(204).end()

test('a delivery is sent byte for byte with headers and credential, then reported', async () => {
  const receiver = await scriptedBroker(good)
  const change = { auth_header: 'Bearer canary', headers: { 'webhook-id': 'w1', 'webhook-signature': 'v1,abc' } }
  const delivery = recordedDelivery(id, `${receiver.url}/hook/canary-path`, change)
  const { results, log } = await delivering([delivery], anywhere)
  expect(receiver.requests[0]).toMatchObject({
    method: 'POST',
    body: delivery.payload,
    headers: {
      authorization: 'Bearer canary',
      'webhook-id': 'w1',
      'webhook-signature': 'v1,abc',
      'x-brokkr-event-type': 'deployment.created',
      'x-brokkr-delivery-id': id,
    },
  })
  expect(results).toMatchObject([{ success: true, status_code: 204 }])
  expect(log()).not.toContain('canary')
})

test('an error or redirect of the receiver is reported and not followed', async () => {
  const inner = await scriptedBroker(good)
  const busy = await scriptedBroker((_request, response) => void response.writeHead(503).end('busy '.repeat(1_000)))
  const elsewhere = await scriptedBroker((_request, response) => void response.writeHead(302, { location: inner.url }).end())
  const { results } = await delivering([recordedDelivery(id, busy.url), recordedDelivery(id, elsewhere.url)], anywhere)
  expect(new Set(results.map(({ success, status_code }) => `${String(success)} ${String(status_code)}`))).toEqual(
    new Set(['false 302', 'false 503']),
  )
  expect(String(results.find(({ status_code }) => status_code === 503)?.['error']).length).toBeLessThanOrEqual(500)
  expect(inner.requests).toEqual([])
})

test.each([
  ['this machine', 'http://127.0.0.1:9/hook/canary'],
  ['metadata', 'http://169.254.169.254/hook/canary'],
  ['a name that leads to metadata', 'http://meta.example/hook/canary'],
  ['a network that the operator denies', 'http://denied.example/hook/canary'],
  ['another scheme', 'file:///etc/canary'],
])('%s is rejected before sending, without repeating the address', async (_what, url) => {
  const lookup = (host: string) => Promise.resolve(host === 'meta.example' ? ['169.254.169.254'] : ['10.1.2.3'])
  const { results, log } = await delivering([recordedDelivery(id, url)], { ...allowPrivateNetworks, denied: ['10.1.0.0/16'] }, lookup)
  expect(results).toMatchObject([{ success: false }])
  expect(JSON.stringify(results)).not.toContain('canary')
  expect(log()).not.toContain('canary')
})

test('a receiver that hangs does not delay the next run, and the number in flight is bounded', async () => {
  const [hung, receiver] = [await scriptedBroker(() => undefined), await scriptedBroker(good)]
  const batches = [Array.from({ length: 5 }, () => recordedDelivery(id, hung.url)), [recordedDelivery(id, receiver.url)]]
  batches.push(Array.from({ length: 10 }, () => recordedDelivery(id, hung.url)))
  const server = await scriptedBroker((_request, response, url) =>
    url.pathname.endsWith('/pending') ? json(response, 200, batches.shift() ?? []) : json(response, 200, deliveryReported(id)),
  )
  const outbound = createOutbound({}, { allow: anywhere, schemes: ['https:', 'http:'] })
  closeAfter(() => outbound.close())
  const { client } = await server.connect()
  const stopping = new AbortController()
  const deps = { client, agentId: 'a' as never, outbound, check: () => undefined, clock, log: silentLog, everyMs: 1_000 }
  const loop = deliveriesLoop(deps)
  expect(await loop.run(stopping.signal)).toEqual({ started: 5, in_flight: 5 })
  await loop.run(stopping.signal)
  await waitFor('the other receiver', () => receiver.requests.length === 1)
  await waitFor('its report', () => server.requests.some(({ url }) => url.pathname.endsWith('/result')))
  expect(await loop.run(stopping.signal)).toMatchObject({ started: 10 })
  expect(await loop.run(stopping.signal)).toEqual({ started: 0, in_flight: 15 })
  stopping.abort()
  await loop.whenIdle()
})

test('a receiver without a response fails after the time limit of the delivery', async () => {
  const hung = await scriptedBroker(() => undefined)
  const { results } = await delivering([recordedDelivery(id, hung.url, { timeout_seconds: 1 })], anywhere)
  expect(results).toMatchObject([{ success: false }])
})
