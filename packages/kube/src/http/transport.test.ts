import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { manualClock } from '@brokkr/testing/clock.ts'
import { expect, onTestFinished, test } from 'vitest'
import type { KubeConfig } from '../auth/kube-config.ts'
import type { Kube } from '../client/kube.ts'
import { KubeError } from '../client/kube-error.ts'
import { type KubeOptions, openKube } from '../client/open-kube.ts'
import { json, newCa, newLeaf, strangeServer } from '../test-parts/strange-server.ts'

const KIND = { apiVersion: 'v1', kind: 'ConfigMap' }
const REF = { ...KIND, namespace: 'a', name: 'b' }
const EXPIRED = { notBefore: new Date(Date.now() - 2 * 86_400_000), notAfter: new Date(Date.now() - 86_400_000) }
const MAP = { ...KIND, metadata: { name: 'b', namespace: 'a' } }

function open(config: KubeConfig, options: KubeOptions = {}): Kube {
  const kube = openKube(config, options)
  onTestFinished(() => kube.close())
  return kube
}
const errorOf = (call: Promise<unknown>): Promise<KubeError> =>
  call.then(
    () => new KubeError('no error', { reason: 'Unknown' }),
    (error: unknown) => (error instanceof KubeError ? error : Promise.reject(error)),
  )
async function drain(events: AsyncIterable<unknown>): Promise<void> {
  for await (const _event of events);
}
const folder = async () => {
  const dir = await mkdtemp(join(tmpdir(), 'transport-'))
  onTestFinished(() => rm(dir, { recursive: true }))
  return dir
}

test('an HTML response is reported as not from an API server', async () => {
  const { config } = await strangeServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/html' })
    response.end('<html>Sign in</html>')
  })
  const kube = open(config)
  const apply = kube.apply(MAP, { fieldManager: 'm', dryRun: true })
  for (const error of [
    await errorOf(apply),
    await errorOf(kube.get(REF)),
    await errorOf(kube.list(KIND)),
    await errorOf(drain(kube.watch(KIND))),
  ]) {
    expect(error.reason).toBe('BadAnswer')
    expect(error.message).toContain('a proxy or a login page')
  }
})

test('a 404 without an object name does not mean that the object is absent', async () => {
  const { config } = await strangeServer((_request, response) => {
    response.writeHead(404, { 'content-type': 'text/plain' })
    response.end('default backend - 404')
  })
  expect(await errorOf(open(config).find(REF))).toMatchObject({
    reason: 'NotFound',
    message: expect.stringContaining('default backend') as unknown,
  })
})

test('a redirect is not followed, so the credential is not sent elsewhere', async () => {
  const seen: string[] = []
  const other = await strangeServer((request, response) => {
    seen.push(String(request.headers.authorization))
    json(response, 200, MAP)
  })
  const { config } = await strangeServer((_request, response) => {
    response.writeHead(302, { location: `${other.config.server}/api/v1/namespaces/a/configmaps/b` })
    response.end()
  })
  expect((await errorOf(open({ ...config, token: { kind: 'value', value: 't' } }).get(REF))).reason).toBe('BadAnswer')
  expect(seen).toEqual([])
})

test.each(['no line end', 'with line end'])('a watch line of 10 MB, %s, is refused', async (form) => {
  const { config } = await strangeServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.write('x'.repeat(10 * 1024 * 1024))
    if (form === 'with line end') response.end('\n')
  })
  const error = await errorOf(drain(open(config).watch(KIND)))
  expect([error.reason, error.message]).toEqual(['BadAnswer', expect.stringContaining('longer than')])
})

test.each([
  ['not JSON', '{"type":"ADDED",\n', 'is not JSON'],
  ['no event', '{"type":"STRANGE","object":{"metadata":{}}}\n', 'is not a known event'],
  ['no object', '{"type":"ADDED","object":5}\n', 'is not a known event'],
])('a watch line that is %s is a typed error', async (_what, line, message) => {
  const { config } = await strangeServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.write(line)
  })
  expect(await errorOf(drain(open(config).watch(KIND)))).toMatchObject({
    reason: 'BadAnswer',
    message: expect.stringContaining(message) as string,
  })
})

test('an ERROR event is thrown with its reason', async () => {
  const { config } = await strangeServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.write(`${JSON.stringify({ type: 'ERROR', object: { kind: 'Status', code: 410, reason: 'Expired', message: 'too old' } })}\n`)
  })
  expect(await errorOf(drain(open(config).watch(KIND)))).toMatchObject({ reason: 'Expired', status: 410 })
})

test('a watch that is cut within an event or silent is reported', async () => {
  const { config } = await strangeServer((request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.write('{"type":')
    if (request.url?.includes('labelSelector')) response.end()
  })
  const kube = open(config)
  expect((await errorOf(drain(kube.watch(KIND, { labelSelector: 'a' })))).message).toContain('ended within an event')
  expect(await errorOf(drain(kube.watch(KIND, { idleMs: 100 })))).toMatchObject({
    reason: 'TimedOut',
    message: expect.stringContaining('no event for 100 ms') as string,
  })
})

test('a gzip list is decompressed, halved above the limit, and refused if invalid', async () => {
  const asked: (string | null)[] = []
  const list = (items: number) => ({ metadata: { resourceVersion: '1' }, items: Array.from({ length: items }, () => ({ metadata: {} })) })
  const bodies: Record<string, Buffer> = {
    good: gzipSync(JSON.stringify(list(2))),
    broken: gzipSync(JSON.stringify(list(2))).fill(7, 10, 20),
    bomb: gzipSync(Buffer.alloc(70 * 1024 * 1024, ' ')),
  }
  const { config } = await strangeServer((request, response) => {
    const query = new URL(request.url ?? '', 'http://x').searchParams
    asked.push(query.get('limit'))
    response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' })
    response.end(query.get('limit') === '1' ? bodies['good'] : bodies[query.get('labelSelector') ?? ''])
  })
  const kube = open(config)
  expect((await kube.list(KIND, { labelSelector: 'good' })).items).toHaveLength(2)
  expect(await errorOf(kube.list(KIND, { labelSelector: 'broken' }))).toMatchObject({ reason: 'BadAnswer' })
  expect((await kube.list(KIND, { labelSelector: 'bomb', pageSize: 4 })).items).toHaveLength(2)
  expect(asked).toEqual(['500', '500', '4', '2', '1'])
})

test('a silent, truncating or absent server is reported as such', async () => {
  const { server, config } = await strangeServer((request, response) => {
    if (request.method === 'GET') return
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' })
    response.write('{')
    response.destroy()
  })
  const kube = open(config)
  expect(await errorOf(kube.get(REF, { timeoutMs: 100 }))).toMatchObject({ reason: 'TimedOut', retryable: true })
  expect(await errorOf(kube.create(MAP))).toMatchObject({ reason: 'Unreachable', retryable: true })
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  expect(await errorOf(kube.get(REF))).toMatchObject({ reason: 'Unreachable', message: expect.stringContaining('ECONNREFUSED') as string })
})

test('an invalid server certificate is refused before the request is sent', async () => {
  const ca = await newCa()
  const expired = await newLeaf(ca, EXPIRED)
  for (const leaf of [expired, await newLeaf(ca, { hosts: ['other.example.com'] }), await newLeaf(await newCa('another CA'))]) {
    let requests = 0
    const { server, config } = await strangeServer(() => requests++, { ca, leaf })
    server.on('request', () => requests++)
    const error = await errorOf(open({ ...config, token: { kind: 'value', value: 't' } }).get(REF))
    expect([error.reason, requests]).toEqual(['Untrusted', 0])
    expect(error.message).toContain('Check certificate-authority')
  }
})

test('a 401 with an expired client certificate names the expiry', async () => {
  const ca = await newCa()
  const client = await newLeaf(ca, { usages: ['client'], ...EXPIRED })
  const { config } = await strangeServer(
    (_request, response) => json(response, 401, { kind: 'Status', code: 401, reason: 'Unauthorized', message: 'Unauthorized' }),
    { ca },
  )
  const error = await errorOf(open({ ...config, certificate: { cert: { pem: client.cert }, key: { pem: client.key } } }).get(REF))
  expect(error).toMatchObject({ reason: 'Unauthorized', message: expect.stringContaining('The client certificate expired on') as string })
})

test('a 401 is retried once if the token file has changed', async () => {
  const path = join(await folder(), 'token')
  const seen: string[] = []
  const { config } = await strangeServer((request, response) => {
    seen.push(String(request.headers.authorization))
    if (request.headers.authorization === 'Bearer two') return json(response, 200, MAP)
    void writeFile(path, seen.length === 1 ? 'two' : 'three').then(() =>
      json(response, 401, { kind: 'Status', code: 401, reason: 'Unauthorized' }),
    )
  })
  await writeFile(path, 'one')
  const clock = manualClock()
  const kube = open({ ...config, token: { kind: 'file', path } }, { clock })
  expect((await kube.get(REF)).metadata.name).toBe('b')
  expect(seen).toEqual(['Bearer one', 'Bearer two'])
  await writeFile(path, 'nonsense')
  await clock.advance(10_000)
  expect((await errorOf(kube.get(REF))).reason).toBe('Unauthorized')
  expect(seen.length).toBeLessThanOrEqual(4)
})

test('a changed CA file is used by the next connection', async () => {
  const path = join(await folder(), 'ca.crt')
  const [one, two] = [await newCa('one'), await newCa('two')]
  const { server, config } = await strangeServer((_request, response) => json(response, 200, MAP), { ca: one })
  await writeFile(path, one.cert)
  const clock = manualClock()
  const kube = open({ ...config, ca: { file: path } }, { clock })
  await kube.get(REF)
  server.setSecureContext(await newLeaf(two))
  server.closeAllConnections()
  const refused = await errorOf(kube.get(REF).then(() => kube.get(REF)))
  expect(['Untrusted', 'Unreachable']).toContain(refused.reason)
  await writeFile(path, two.cert)
  await clock.advance(10_000)
  expect((await kube.get(REF)).metadata.name).toBe('b')
})

test('closing the client aborts calls in flight and refuses later ones', async () => {
  const { config } = await strangeServer(() => undefined)
  const kube = openKube(config)
  await kube.discovery.all()
  const calls = Promise.allSettled([kube.get(REF), drain(kube.watch(KIND))])
  await kube.close()
  expect((await calls).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  await expect(kube.get(REF)).rejects.toThrow('closed')
})

/** Ends the connection of every call that comes over one that carried a call before; `isBegun`: after the first bytes of an answer. */
async function closingServer(isBegun = false) {
  const used = new WeakSet<object>()
  const seen: string[] = []
  const { config } = await strangeServer((request, response) => {
    const isReused = used.has(request.socket)
    used.add(request.socket)
    seen.push(`${request.method} ${isReused ? 'reused' : 'fresh'}`)
    if (!isReused) return json(response, 200, MAP)
    if (isBegun) request.socket.write('HTTP/1.1 200 OK\r\n', () => request.socket.destroy())
    else request.socket.destroy()
  })
  const kube = open(config)
  await kube.discovery.all()
  await Promise.all([kube.get(REF), kube.get(REF), kube.get(REF)])
  seen.splice(0)
  return { kube, seen }
}

test('a read is repeated on a fresh connection if a reused one closes before the first byte', async () => {
  const { kube, seen } = await closingServer()
  expect((await kube.get(REF)).metadata.name).toBe('b')
  expect(seen).toEqual(['GET reused', 'GET fresh'])
})

test('a write, and a read with a started response, are not repeated', async () => {
  const unanswered = await closingServer()
  expect((await errorOf(unanswered.kube.apply(MAP, { fieldManager: 'm' }))).reason).toBe('Unreachable')
  expect(unanswered.seen).toEqual(['PATCH reused'])
  const begun = await closingServer(true)
  expect((await errorOf(begun.kube.get(REF))).reason).toBe('Unreachable')
  expect(begun.seen).toEqual(['GET reused'])
})

test('impersonation and user agent are sent, and Retry-After is read, as headers', async () => {
  const seen: Record<string, unknown>[] = []
  const { config } = await strangeServer((request, response) => {
    seen.push(request.headersDistinct)
    response.setHeader('retry-after', '3')
    json(response, 429, { kind: 'Status', code: 429, reason: 'TooManyRequests', message: 'slow down' })
  })
  const kube = open(config, { userAgent: 'brokkr-agent/1.2.3' })
  const error = await errorOf(kube.get(REF, { as: { user: 'u', groups: ['a', 'b'], uid: '7', extra: { 'scopes.example.com/x': ['y'] } } }))
  expect(error).toMatchObject({ reason: 'TooManyRequests', retryAfterMs: 3_000 })
  expect(seen[0]).toMatchObject({
    'user-agent': ['brokkr-agent/1.2.3'],
    'impersonate-user': ['u'],
    'impersonate-group': ['a', 'b'],
    'impersonate-uid': ['7'],
    'impersonate-extra-scopes.example.com%2fx': ['y'],
  })
})
