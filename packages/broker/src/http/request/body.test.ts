// Bodies over HTTP: kinds, types, encodings and caps, seen from outside and from the handler.
import { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { call, paks, startTestServer, type TestServer } from '../server/server.fixture.ts'

const caps = { bodyBytes: 64 * 1024, objectBodyBytes: 256 * 1024 }
let server: TestServer
beforeAll(async () => {
  server = await startTestServer({ limits: caps })
})
afterAll(() => server.close())
const lastBody = () => server.reached.at(-1)?.request.body
const type = (contentType: string) => ({ 'content-type': contentType })
const agentJson = (padding: number) => JSON.stringify({ name: 'a', cluster_name: 'c', ignored: 'x'.repeat(padding) })
const overhead = agentJson(0).length

test.each<[string, Record<string, string>, string, number, string | undefined]>([
  ['JSON', type('application/json'), agentJson(0), 201, undefined],
  ['JSON with a charset', type('application/json; charset=UTF-8'), agentJson(0), 201, undefined],
  ['JSON under a name of its own', type('application/vnd.acme+json'), agentJson(0), 201, undefined],
  ['no type at all', type(''), agentJson(0), 201, undefined],
  ['a byte order mark before JSON', type('application/json'), `\ufeff${agentJson(0)}`, 201, undefined],
  ['another charset', type('application/json; charset=latin1'), agentJson(0), 415, 'unsupported_media_type'],
  ['a form', type('application/x-www-form-urlencoded'), 'name=a', 415, 'unsupported_media_type'],
  ['plain text', type('text/plain'), agentJson(0), 415, 'unsupported_media_type'],
  ['a broken type', type('nonsense'), agentJson(0), 415, 'unsupported_media_type'],
  ['YAML where JSON belongs', type('application/yaml'), 'name: a', 415, 'unsupported_media_type'],
  ['an unknown encoding', { ...type('application/json'), 'content-encoding': 'zstd' }, agentJson(0), 415, 'unsupported_media_type'],
  ['nothing', type('application/json'), '', 400, 'invalid_json'],
  ['blanks', type('application/json'), ' \n', 400, 'invalid_json'],
  ['half a document', type('application/json'), '{"name":', 400, 'invalid_json'],
  ['a name twice', type('application/json'), '{"name":"a","name":"b","cluster_name":"c"}', 422, 'invalid_request_body'],
  ['a prototype', type('application/json'), '{"name":"a","cluster_name":"c","x":{"y":{"constructor":1}}}', 400, 'invalid_json'],
  ['a NUL', type('application/json'), '{"name":"a\\u0000","cluster_name":"c"}', 422, 'validation_failed'],
  ['exactly the cap', type('application/json'), agentJson(caps.bodyBytes - overhead), 201, undefined],
  ['one byte more', type('application/json'), agentJson(caps.bodyBytes - overhead + 1), 413, 'payload_too_large'],
])('%s', async (_, headers, body, status, code) => {
  const before = server.reached.length
  const answer = await call(server, 'createAgent', { headers, body })
  expect([answer.status, answer.json?.code, server.reached.length - before]).toEqual([status, code, status === 201 ? 1 : 0])
})

test('bytes that are no UTF-8 are refused', async () => {
  const answer = await call(server, 'createAgent', { body: Buffer.from([0x22, 0xff, 0x22]) })
  expect(answer.json?.code).toBe('invalid_json')
})

test.each([
  ['gzip', gzipSync],
  ['x-gzip', gzipSync],
  ['deflate', deflateSync],
  ['br', brotliCompressSync],
] as const)('%s is inflated', async (encoding, pack) => {
  const answer = await call(server, 'createAgent', { headers: { 'content-encoding': encoding }, body: pack(agentJson(1000)) })
  expect([answer.status, lastBody()]).toEqual([201, { name: 'a', cluster_name: 'c' }])
})

test.each([
  ['gzip', gzipSync],
  ['br', (bytes: Buffer) => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } })],
] as const)('a %s bomb is 413, and memory does not follow it', async (encoding, pack) => {
  const bomb = pack(Buffer.alloc(64 * 1024 * 1024, 0x20))
  const before = process.memoryUsage().rss
  const answers = await Promise.all(
    Array.from({ length: 8 }, () => call(server, 'createAgent', { headers: { 'content-encoding': encoding }, body: bomb })),
  )
  expect(answers.map((answer) => [answer.status, answer.json?.code])).toEqual(answers.map(() => [413, 'payload_too_large']))
  expect(process.memoryUsage().rss - before).toBeLessThan(200 * 1024 * 1024)
})

test('a body that does not inflate is 400, and so is one cut short', async () => {
  const whole = gzipSync(agentJson(1000))
  for (const body of [Buffer.from('not gzip at all'), whole.subarray(0, whole.length - 12)]) {
    expect((await call(server, 'createAgent', { headers: { 'content-encoding': 'gzip' }, body })).json?.code).toBe('invalid_json')
  }
})

test.each([
  ['application/yaml', '', { yaml_content: 'a: 1\n', is_deletion_marker: false }],
  ['text/yaml; charset=utf-8', '', { yaml_content: 'a: 1\n', is_deletion_marker: false }],
  ['application/x-yaml', '?deletion_marker=true', { yaml_content: 'a: 1\n', is_deletion_marker: true }],
])('a manifest as %s with query %j', async (contentType, query, expected) => {
  const path = `/api/v1/stacks/00000000-0000-4000-8000-000000000005/deployment-objects${query}`
  const answer = await call(server, 'createDeploymentObject', { headers: type(contentType), body: 'a: 1\n', path })
  expect([answer.status, lastBody()]).toEqual([201, expected])
})

test('a manifest is stored byte for byte, with byte order mark and line ends', async () => {
  const text = '\ufeffa: 1\r\n\u0007é😀'
  await call(server, 'createDeploymentObject', { headers: type('application/yaml'), body: text })
  expect(lastBody()).toEqual({ yaml_content: text, is_deletion_marker: false })
})

test('deletion_marker in the query is ignored for JSON bodies', async () => {
  const path = '/api/v1/stacks/00000000-0000-4000-8000-000000000005/deployment-objects?deletion_marker=true'
  await call(server, 'createDeploymentObject', { path })
  expect(lastBody()).toEqual({ yaml_content: 'a: 1', is_deletion_marker: false })
})

test.each<[string, Record<string, string>, string | Uint8Array, number]>([
  ['syntax', type('application/json'), '{', 400],
  ['shape', type('application/json'), '{"yaml_content":5}', 400],
  ['a missing field', type('application/json'), '{}', 400],
  ['a field twice', type('application/json'), '{"yaml_content":"a","yaml_content":"b"}', 400],
  ['a foreign type is read as JSON', type('text/plain'), 'a: 1', 400],
  ['charset', type('application/yaml; charset=utf-16'), 'a: 1', 400],
  ['encoding', { ...type('application/yaml'), 'content-encoding': 'zstd' }, 'a: 1', 400],
  ['a NUL', type('application/yaml'), 'a: \0', 400],
  ['bytes', type('application/yaml'), Buffer.from([0xff]), 400],
  ['nothing as JSON', type('application/json'), '', 400],
  ['size', type('application/yaml'), 'x'.repeat(caps.objectBodyBytes + 1), 413],
])('the fault of a manifest, %s, has one code', async (_, headers, body, status) => {
  const answer = await call(server, 'createDeploymentObject', { headers, body })
  expect([answer.status, answer.json?.code]).toEqual([status, status === 413 ? 'payload_too_large' : 'invalid_deployment_object'])
})

test('a manifest may be larger than other bodies', async () => {
  expect(
    (await call(server, 'createDeploymentObject', { headers: type('application/yaml'), body: 'x'.repeat(caps.objectBodyBytes) })).status,
  ).toBe(201)
})

test.each([
  ['nothing', undefined, {}],
  ['an empty text', '', {}],
  ['broken JSON', '{"k8s_reach', {}],
  ['a value of another type', '{"k8s_reachable":"yes","agent_version":"1"}', {}],
  ['another document', '[1]', {}],
  ['a good one', '{"k8s_reachable":true,"unknown":1}', { k8s_reachable: true }],
])('a heartbeat with %s', async (_, body, expected) => {
  const answer = await call(server, 'recordHeartbeat', { pak: paks.itself, ...(body === undefined ? {} : { body }) })
  expect([answer.status, lastBody()]).toEqual([204, expected])
})

test('a heartbeat over the cap is refused all the same', async () => {
  const answer = await call(server, 'recordHeartbeat', { pak: paks.itself, body: `"${'x'.repeat(caps.bodyBytes)}"` })
  expect([answer.status, answer.json?.code, answer.json?.details]).toEqual([
    413,
    'payload_too_large',
    { limit: 'limits.body_bytes', max: caps.bodyBytes },
  ])
})

test('a bare JSON string is a body', async () => {
  await call(server, 'stacksAddLabel', { body: '"tier:web"' })
  expect(lastBody()).toBe('tier:web')
})

test('the body of an operation without one is ignored', async () => {
  const answer = await call(server, 'verifyPak', { headers: type('nonsense'), body: '{' })
  expect([answer.status, lastBody()]).toEqual([200, undefined])
})
