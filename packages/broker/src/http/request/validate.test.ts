// The contract's schemas as they meet text from outside.
import { endpoint } from '@brokkr/contract/endpoint.ts'
import { type EndpointName, endpoints } from '@brokkr/contract/endpoints.ts'
import { Uuid } from '@brokkr/contract/wire.ts'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { stripUnknown } from './strip-unknown.ts'
import { createCompiler } from './validate.ts'

const compile = createCompiler()
const of = (name: EndpointName) => compile(endpoints[name])
const id = '0a000000-0000-4000-8000-00000000000f'
const toFieldFault = (run: () => unknown): { code: string; errors: unknown; message: string; limit?: unknown } | 'ok' => {
  try {
    run()
    return 'ok'
  } catch (error) {
    const { code, message, details } = error as { code: string; message: string; details?: Record<string, unknown> }
    return { code, message, errors: details?.['errors'], ...(details?.['limit'] === undefined ? {} : { limit: details['limit'] }) }
  }
}

test.each(Object.keys(endpoints) as EndpointName[])('the schemas of %s can be compiled and stripped by', (name) => {
  const validators = of(name)
  for (const check of [() => validators.params({}), () => validators.query(''), () => validators.body({})])
    expect(toFieldFault(check)).toSatisfy((fault: ReturnType<typeof toFieldFault>) => fault === 'ok' || typeof fault.code === 'string')
})

test('a uuid in the path is lower-cased', () => {
  expect(of('getAgent').params({ id: id.toUpperCase() })).toEqual({ id })
})

test.each(['x', '', `${id} `, `urn:uuid:${id}`, `{${id}}`, id.replaceAll('-', ''), `${id}\n`])('%j in the path is no uuid', (text) => {
  expect(toFieldFault(() => of('getAgent').params({ id: text }))).toEqual({
    code: 'invalid_path_parameter',
    message: 'path parameter id must be a uuid',
    errors: [{ path: 'id', message: 'must be a uuid' }],
  })
})

test('a NUL in a path parameter is refused', () => {
  expect(toFieldFault(() => of('agentsRemoveLabel').params({ id, label: 'a\0b' }))).toMatchObject({ code: 'invalid_path_parameter' })
  expect(of('agentsRemoveLabel').params({ id, label: 'a/b c' })).toEqual({ id, label: 'a/b c' })
})

const everyQuery = compile(
  endpoint({
    method: 'GET',
    path: '/api/v1/x',
    summary: 'x',
    success: 200,
    query: z.object({
      limit: z.int().min(1).default(100),
      ratio: z.number().optional(),
      all: z.boolean().optional(),
      label: z.array(z.string()).optional(),
      one: Uuid.optional(),
      name: z.string().max(5).optional(),
    }),
  }),
)
test.each([
  ['', { limit: 100 }],
  ['limit=5', { limit: 5 }],
  ['limit=5&limit=', 'invalid_query_parameter'],
  ['name=a&name=b', 'invalid_query_parameter'],
  ['unknown=1&unknown=2&__proto__=3', { limit: 100 }],
  ['label=a', { limit: 100, label: ['a'] }],
  ['label=a&label=b', { limit: 100, label: ['a', 'b'] }],
  ['limit=0', 'invalid_query_parameter'],
  ['limit=1.5', 'invalid_query_parameter'],
  ['limit=1e3', 'invalid_query_parameter'],
  ['limit=0x10', 'invalid_query_parameter'],
  ['limit=%205', 'invalid_query_parameter'],
  ['limit=', 'invalid_query_parameter'],
  ['limit=99999999999999999999', 'invalid_query_parameter'],
  ['ratio=-0.5', { limit: 100, ratio: -0.5 }],
  ['all=true', { limit: 100, all: true }],
  ['all=false', { limit: 100, all: false }],
  ['all=1', 'invalid_query_parameter'],
  ['all', 'invalid_query_parameter'],
  ['name=', { limit: 100, name: '' }],
  ['name=abcdef', 'invalid_query_parameter'],
  ['name=%00', 'invalid_query_parameter'],
  ['name=%ff', { limit: 100, name: '\ufffd' }],
  [`one=${id.toUpperCase()}`, { limit: 100, one: id }],
  ['one=7', 'invalid_query_parameter'],
])('the query %j gives %j', (text, expected) => {
  let outcome: unknown
  const fault = toFieldFault(() => void (outcome = everyQuery.query(text)))
  expect(fault === 'ok' ? outcome : fault.code).toEqual(expected)
})

test.each<[EndpointName, unknown, object]>([
  ['createAgent', { name: 'a' }, { code: 'invalid_request_body', errors: [{ path: 'cluster_name', message: 'is missing' }] }],
  [
    'createAgent',
    { name: 5, cluster_name: 'c' },
    { code: 'invalid_request_body', errors: [{ path: 'name', message: 'must be a string' }] },
  ],
  ['createAgent', null, { code: 'invalid_request_body', errors: [{ path: '', message: 'must be an object' }] }],
  ['createAgent', [], { code: 'invalid_request_body', errors: [{ path: '', message: 'must be an object' }] }],
  [
    'createAgent',
    { name: 'a', cluster_name: 'c', generator_ids: ['S3CR3T'] },
    { code: 'invalid_request_body', errors: [{ path: 'generator_ids[0]', message: 'must be a uuid' }] },
  ],
  [
    'createAgent',
    { name: 'a', cluster_name: 'c', annotations: { 'S3CR3T key': 5 } },
    { code: 'invalid_request_body', errors: [{ path: 'annotations.*', message: 'must be a string' }] },
  ],
  ['createAgent', { name: 'a', cluster_name: 'c', labels: Array(257).fill('x') }, { code: 'limit_exceeded', limit: 256 }],
  ['stacksAddLabel', { label: 'x' }, { code: 'invalid_request_body', errors: [{ path: '', message: 'must be a string' }] }],
  [
    'createStack',
    { name: 'a', generator_id: id, drift: 'S3CR3T' },
    { code: 'invalid_request_body', errors: [{ path: 'drift', message: 'must be one of heal, report, off' }] },
  ],
  [
    'recordHeartbeat',
    { agent_version: 'x'.repeat(65) },
    { code: 'validation_failed', errors: [{ path: 'agent_version', message: 'must be at most 64 characters long' }] },
  ],
  [
    'recordHeartbeat',
    { k8s_api_latency_ms: 2 ** 31 },
    { code: 'validation_failed', errors: [{ path: 'k8s_api_latency_ms', message: 'must be at most 2147483647' }] },
  ],
  [
    'recordHeartbeat',
    { k8s_api_latency_ms: 1.5 },
    { code: 'invalid_request_body', errors: [{ path: 'k8s_api_latency_ms', message: 'must be an integer' }] },
  ],
  [
    'reportStatus',
    { session: 1, n: 1, stacks: [{ stack_id: id, rev: 1, object_id: 'S3CR3T', phase: 'applied', observed_at: '2026-01-02T03:04:05Z' }] },
    { code: 'invalid_request_body', errors: [{ path: 'stacks[0].object_id', message: 'must be a uuid' }] },
  ],
  [
    'reportStatus',
    { session: 1, n: 1, stacks: [{ stack_id: id, rev: 1, object_id: null, phase: 'applied', observed_at: 'yesterday' }] },
    { code: 'invalid_request_body', errors: [{ path: 'stacks[0].observed_at', message: 'must be a time as in RFC 3339' }] },
  ],
  ['reportStatus', { session: 1, n: 1, stacks: Array.from({ length: 201 }, () => ({})) }, { code: 'validation_failed' }],
  ['reportStatus', { session: 2 ** 53, n: 1, stacks: [] }, { code: 'validation_failed' }],
])('%s refuses case %# with a sentence of its own', (name, body, expected) => {
  const fault = toFieldFault(() => of(name).body(body))
  expect(fault).toMatchObject(expected)
  expect(JSON.stringify(fault)).not.toContain('S3CR3T')
})

test('validation fills defaults in and does not change its input', () => {
  const sent = { yaml_content: 'a' }
  expect(of('createDeploymentObject').body(sent)).toEqual({ yaml_content: 'a', is_deletion_marker: false })
  expect(sent).toEqual({ yaml_content: 'a' })
})

test('validation drops unknown fields at any depth', () => {
  const stack = { stack_id: id, rev: 1, object_id: null, phase: 'applied', observed_at: '2026-01-02T03:04:05Z' }
  const body = of('reportStatus').body({
    session: 1,
    n: 1,
    is_system: true,
    stacks: [{ ...stack, pak_hash: 'x' }],
    check: { cursor: 'c', count: 1, digest: 'd', admin: true },
  })
  expect(body).toEqual({ session: 1, n: 1, stacks: [{ ...stack, attempts: 0 }], check: { cursor: 'c', count: 1, digest: 'd' } })
})

test('free maps have no prototype', () => {
  const { annotations } = of('createAgent').body({ name: 'a', cluster_name: 'c', annotations: { k: 'v' } }) as { annotations: object }
  expect(Object.getPrototypeOf(annotations)).toBeNull()
})

test('ids in bodies are lower-cased like those in paths', () => {
  expect(of('addTarget').body({ agent_id: id.toUpperCase(), stack_id: id })).toEqual({ agent_id: id, stack_id: id })
})

const shapes = z.object({
  name: z.string(),
  tags: z.array(z.object({ key: z.string(), value: z.string().nullable() })).optional(),
  map: z.record(z.string(), z.object({ n: z.int() })).optional(),
  choice: z
    .discriminatedUnion('type', [z.object({ type: z.literal('a'), left: z.int() }), z.object({ type: z.literal('b'), right: z.string() })])
    .nullable(),
  any: z.unknown(),
})

test('stripping keeps every field that the schema keeps', () => {
  const { $schema: _, ...schema } = z.toJSONSchema(shapes, { io: 'input' })
  const strip = stripUnknown(schema)
  const key = fc.constantFrom('name', 'tags', 'map', 'choice', 'any', 'type', 'left', 'right', 'key', 'value', 'n', 'extra')
  const noise = fc.dictionary(key, fc.jsonValue({ maxDepth: 2 }), { noNullPrototype: true })
  const mixed = (known: Record<string, fc.Arbitrary<unknown>>) =>
    fc.tuple(noise, fc.record(known)).map(([extra, value]) => ({ ...extra, ...value }))
  const choice = fc.oneof(
    mixed({ type: fc.constant('a'), left: fc.integer() }),
    mixed({ type: fc.constant('b'), right: fc.string() }),
    fc.constant(null),
  )
  const tags = fc.array(mixed({ key: fc.string(), value: fc.option(fc.string()) }), { maxLength: 3 })
  const value = mixed({
    name: fc.string(),
    tags,
    map: fc.dictionary(fc.constantFrom('x', 'y'), mixed({ n: fc.integer() }), { noNullPrototype: true }),
    choice,
    any: fc.jsonValue({ maxDepth: 2 }),
  })
  const plain = (kept: unknown): unknown => JSON.parse(JSON.stringify(kept))
  fc.assert(
    fc.property(value, (sent) => {
      expect(plain(strip(sent))).toEqual(plain(shapes.parse(sent)))
    }),
  )
})

test('validation errors never quote the input', () => {
  const names = (Object.keys(endpoints) as EndpointName[]).filter((name) => 'body' in endpoints[name])
  const keys = fc.constantFrom(
    'name',
    'cluster_name',
    'labels',
    'annotations',
    'stacks',
    'session',
    'n',
    'agent_id',
    'yaml_content',
    'S3CR3T',
  )
  const value = fc.letrec((tie) => ({
    node: fc.oneof(
      { depthSize: 'small' },
      fc.constant('S3CR3T'),
      fc.integer(),
      fc.constant(null),
      fc.array(tie('node')),
      fc.dictionary(keys, tie('node'), { noNullPrototype: true }),
    ),
  })).node
  const validators = new Map(names.map((name) => [name, of(name)]))
  fc.assert(
    fc.property(fc.constantFrom(...names), value, (name, sent) => {
      const fault = toFieldFault(() => validators.get(name)?.body(sent))
      if (fault === 'ok') return
      expect(fault.code).toMatch(/^(invalid_request_body|validation_failed|limit_exceeded)$/)
      expect(JSON.stringify(fault)).not.toContain('S3CR3T')
    }),
  )
})
