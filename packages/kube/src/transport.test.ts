import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { manualClock } from '@brokkr/testing/clock.ts'
import { expect, onTestFinished, test } from 'vitest'
import { KubeError } from './api-error.ts'
import { type KubeOptions, openKube } from './client.ts'
import type { Kube } from './kube.ts'
import type { KubeConfig } from './kube-config.ts'
import { json, newCa, newLeaf, strangeServer } from './test-parts/strange-server.ts'

const KIND = { apiVersion: 'v1', kind: 'ConfigMap' }
const REF = { ...KIND, namespace: 'a', name: 'b' }
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

test('a server that answers HTML is told from an API server, for a dry run, one object, a list and a watch', async () => {
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

test('a redirect is not followed: the credential stays with the server it is for', async () => {
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

test.each(['no line end', 'with line end'])('10 MB of garbage in a watch line, %s, is an error and no full memory', async (form) => {
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
  ['no event', '{"type":"STRANGE","object":{"metadata":{}}}\n', 'is not an event we know'],
  ['no object', '{"type":"ADDED","object":5}\n', 'is not an event we know'],
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

test('an ERROR event is thrown as what it says', async () => {
  const { config } = await strangeServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.write(`${JSON.stringify({ type: 'ERROR', object: { kind: 'Status', code: 410, reason: 'Expired', message: 'too old' } })}\n`)
  })
  expect(await errorOf(drain(open(config).watch(KIND)))).toMatchObject({ reason: 'Expired', status: 410 })
})

test('a stream cut within an event, and one that falls silent, are told', async () => {
  const { config } = await strangeServer((request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.write('{"type":')
    if (request.url?.includes('labelSelector')) response.end()
  })
  const kube = open(config)
  expect((await errorOf(drain(kube.watch(KIND, { labelSelector: 'a' })))).message).toContain('ended within an event')
  expect(await errorOf(drain(kube.watch(KIND, { idleMs: 100 })))).toMatchObject({
    reason: 'TimedOut',
    message: expect.stringContaining('nothing came for 100 ms') as string,
  })
})

test('a packed list is unpacked; one that unpacks to more than the bound is asked for in halves; one that is broken is an error', async () => {
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

test('a server that never answers, answers half, or is gone', async () => {
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

test('a certificate that has expired, names another host or comes from another CA is not trusted, and not a byte of the request leaves', async () => {
  const ca = newCa()
  const expired = newLeaf(ca, { notBeforeMs: Date.now() - 2 * 86_400_000, notAfterMs: Date.now() - 86_400_000 })
  for (const leaf of [expired, newLeaf(ca, { hosts: ['other.example.com'] }), newLeaf(newCa('another CA'))]) {
    let requests = 0
    const { server, config } = await strangeServer(() => requests++, { ca, leaf })
    server.on('request', () => requests++)
    const error = await errorOf(open({ ...config, token: { kind: 'value', value: 't' } }).get(REF))
    expect([error.reason, requests]).toEqual(['Untrusted', 0])
    expect(error.message).toContain('Check certificate-authority')
  }
})

test('an expired client certificate is named when the server refuses us', async () => {
  const ca = newCa()
  const client = newLeaf(ca, { usage: 'client', notBeforeMs: Date.now() - 2 * 86_400_000, notAfterMs: Date.now() - 86_400_000 })
  const { config } = await strangeServer(
    (_request, response) => json(response, 401, { kind: 'Status', code: 401, reason: 'Unauthorized', message: 'Unauthorized' }),
    { ca },
  )
  const error = await errorOf(open({ ...config, certificate: { cert: { pem: client.cert }, key: { pem: client.key } } }).get(REF))
  expect(error).toMatchObject({ reason: 'Unauthorized', message: expect.stringContaining('The client certificate expired on') as string })
})

test('a refused token is read again, and the call repeated once when it is another one', async () => {
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

test('a CA file that changes is used by the next connection', async () => {
  const path = join(await folder(), 'ca.crt')
  const [one, two] = [newCa('one'), newCa('two')]
  const { server, config } = await strangeServer((_request, response) => json(response, 200, MAP), { ca: one })
  await writeFile(path, one.cert)
  const clock = manualClock()
  const kube = open({ ...config, ca: { file: path } }, { clock })
  await kube.get(REF)
  server.setSecureContext(newLeaf(two))
  server.closeAllConnections()
  const refused = await errorOf(kube.get(REF).then(() => kube.get(REF)))
  expect(['Untrusted', 'Unreachable']).toContain(refused.reason)
  await writeFile(path, two.cert)
  await clock.advance(10_000)
  expect((await kube.get(REF)).metadata.name).toBe('b')
})

test('closing the client ends what is under way and everything after', async () => {
  const { config } = await strangeServer(() => undefined)
  const kube = openKube(config)
  await kube.discovery.all()
  const calls = Promise.allSettled([kube.get(REF), drain(kube.watch(KIND))])
  await kube.close()
  expect((await calls).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  await expect(kube.get(REF)).rejects.toThrow('closed')
})

test('impersonation, user agent and Retry-After travel as headers', async () => {
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
