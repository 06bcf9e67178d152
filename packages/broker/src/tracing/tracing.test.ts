// Traces of a real broker at a real OTLP receiver on loopback.
// long: starts several brokers
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createGenerator, startTestBroker, unique } from '@brokkr/testing/broker.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, onTestFinished, test } from 'vitest'
import { ask } from '../http/server/http-call.fixture.ts'
import { toTracesUrl } from './otlp-tracer.ts'
import { parseTraceparent, toTraceSettings } from './request-tracer.ts'

interface Attribute {
  readonly key: string
  readonly value: { readonly stringValue?: string; readonly intValue?: number | string }
}
interface Span {
  readonly name: string
  readonly traceId: string
  readonly parentSpanId?: string
  readonly attributes: readonly Attribute[]
}
interface Export {
  readonly resourceSpans: { readonly resource: { readonly attributes: Attribute[] }; readonly scopeSpans: { readonly spans: Span[] }[] }[]
}

async function startReceiver() {
  const bodies: string[] = []
  const paths: string[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      paths.push(request.url ?? '')
      bodies.push(Buffer.concat(chunks).toString())
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const exports = () => bodies.map((body) => JSON.parse(body) as Export)
  const spans = () =>
    exports().flatMap(({ resourceSpans }) => resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((one) => one.spans)))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, bodies, paths, exports, spans }
}
const valueOf = ({ attributes }: { readonly attributes: readonly Attribute[] }, key: string) => {
  const value = attributes.find((attribute) => attribute.key === key)?.value
  return value?.stringValue ?? Number(value?.intValue)
}

test('requests are exported with route, status and the trace of the caller, without ids and keys', async () => {
  const receiver = await startReceiver()
  const broker = await startTestBroker({
    env: {
      BROKKR__TELEMETRY__ENABLED: 'true',
      BROKKR__TELEMETRY__OTLP_ENDPOINT: receiver.url,
      BROKKR__TELEMETRY__SAMPLING_RATE: '1',
      BROKKR__TELEMETRY__BROKER__SERVICE_NAME: 'broker-of-the-test',
    },
  })
  onTestFinished(() => broker.kill())
  const tenant = await createGenerator(broker)
  const stack = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id } })
  const traceId = 'a'.repeat(31).concat('1')
  const headers = { traceparent: `00-${traceId}-00000000000000b7-01` }
  await ask(broker, `GET /stacks/${stack.id}?x=${unique('query')}`, { headers })
  await ask(broker, 'GET /stacks', { pak: null })
  const span = await waitFor('the span of the caller', () => receiver.spans().find((one) => one.traceId === traceId), { limitMs: 30_000 })
  expect(span).toMatchObject({ name: expect.stringMatching(/^GET \/api\/v1\/stacks\/:/) as string, parentSpanId: '00000000000000b7' })
  expect([valueOf(span, 'http.request.method'), valueOf(span, 'http.response.status_code')]).toEqual(['GET', 200])
  await waitFor('the refused request', () => receiver.spans().some((one) => valueOf(one, 'http.response.status_code') === 401))
  const [first] = receiver.exports()
  expect(valueOf(first!.resourceSpans[0]!.resource, 'service.name')).toBe('broker-of-the-test')
  expect(new Set(receiver.paths)).toEqual(new Set(['/v1/traces']))
  const text = receiver.bodies.join()
  for (const hidden of [stack.id, 'query-', tenant.pak.split('_')[2]!, broker.adminPak.split('_')[2]!]) expect(text).not.toContain(hidden)
  // What is queued at the end is exported.
  await ask(broker, 'GET /generators')
  expect(await broker.stop()).toBe(0)
  expect(receiver.spans().some(({ name }) => name === 'GET /api/v1/generators')).toBe(true)
}, 60_000)

test('a collector that is away costs no request and is named in the log', async () => {
  const broker = await startTestBroker({
    env: {
      BROKKR__TELEMETRY__ENABLED: 'true',
      BROKKR__TELEMETRY__OTLP_ENDPOINT: 'http://127.0.0.1:9',
      BROKKR__TELEMETRY__SAMPLING_RATE: '1',
    },
  })
  onTestFinished(() => broker.kill())
  for (let n = 0; n < 20; n += 1) expect((await ask(broker, 'GET /stacks')).status).toBe(200)
  await waitFor('the warning', () => broker.lines().some(({ msg }) => msg === 'traces not exported'), { limitMs: 60_000 })
}, 120_000)

test.each([
  ['00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', true],
  ['00-00000000000000000000000000000000-b7ad6b7169203331-01', false],
  ['00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01', false],
  ['01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', false],
  ['00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01', false],
  ['', false],
])('the header %j is a trace context: %s', (header, isValid) => {
  expect(parseTraceparent(header) !== null).toBe(isValid)
})

test.each([
  ['http://collector:4318', 'http://collector:4318/v1/traces'],
  ['http://collector:4318/', 'http://collector:4318/v1/traces'],
  ['https://collector/otlp', 'https://collector/otlp/v1/traces'],
  ['https://collector/v1/traces', 'https://collector/v1/traces'],
])('traces for %s go to %s', (endpoint, url) => {
  expect(toTracesUrl(endpoint)).toBe(url)
})

test('settings of the broker override the common ones', () => {
  const all = { enabled: true, otlp_endpoint: 'http://a', service_name: 'a', sampling_rate: 1 }
  const none = { enabled: null, otlp_endpoint: null, service_name: null, sampling_rate: null }
  expect(toTraceSettings({ ...all, broker: none })).toEqual(all)
  expect(toTraceSettings({ ...all, broker: { ...none, enabled: false, service_name: 'b' } })).toEqual({
    ...all,
    enabled: false,
    service_name: 'b',
  })
})
