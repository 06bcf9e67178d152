// Bodies that try to reach further than their fields: prototype keys are refused wherever they stand, unknown fields bind nothing,
// and what the server owns is never written from a body.
import type { Endpoint } from '@brokkr/contract/endpoint.ts'
import { type EndpointName, endpoints } from '@brokkr/contract/endpoints.ts'
import { startTestBroker, type TestBroker } from '@brokkr/testing/broker.ts'
import pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { tenantCall } from '../isolation/generator-calls.fixture.ts'
import { makeTenant, type Tenant } from '../isolation/two-generators.fixture.ts'
import { ask } from '../server/http-call.fixture.ts'
import { call, callOf, startTestServer, type TestServer } from '../server/server.fixture.ts'

let server: TestServer
let broker: TestBroker
let tenant: Tenant
beforeAll(async () => {
  server = await startTestServer()
  broker = await startTestBroker()
  tenant = await makeTenant(broker)
  return async () => {
    await server.close()
    await broker.kill()
  }
}, 120_000)

const withBody = (Object.entries(endpoints) as [EndpointName, Endpoint][]).filter(([, { body }]) => body !== undefined)
const keys = ['__proto__', 'constructor', 'prototype']
const deep = (key: string): string => `{"a":{"b":{"c":{"d":{"${key}":{"x":1}}}}}}`

test.each(withBody)('[X27] %s with a prototype key is refused', async (name, endpoint) => {
  const before = server.reached.length
  const sent = callOf(name).body ?? '{}'
  const object = sent.startsWith('{') ? sent : '{}'
  for (const key of keys)
    for (const body of [object.replace('{', `{"${key}":{"x":1}${object === '{}' ? '' : ','}`), deep(key), `[${deep(key)}]`]) {
      const { status, json } = await call(server, name, { body, ...(permitted(name) === undefined ? {} : { pak: permitted(name)! }) })
      const isHint = name === 'recordHeartbeat'
      const code = endpoint.bodyKind === 'manifest' ? 'invalid_deployment_object' : 'invalid_json'
      if (isHint) expect(status).toBe(204)
      // Its body is the credential: one that cannot be read is a wrong token.
      else if (endpoint.credential === 'link') expect([key, status]).toEqual([key, 401])
      else expect([key, status, json?.code]).toEqual([key, 400, code])
    }
  if (name !== 'recordHeartbeat') expect(server.reached.length).toBe(before)
  expect(({} as Record<string, unknown>)['x']).toBeUndefined()
  expect(Object.getPrototypeOf(server.reached.at(-1)?.request.body ?? {})).not.toHaveProperty('x')
})

/** Some are an agent's alone. */
function permitted(name: EndpointName): string | undefined {
  return [
    'recordHeartbeat',
    'reportStatus',
    'createEvents',
    'reportDeliveryResult',
    'submitDiagnosticResult',
    'appendWorkOrderOutput',
    'pushTelemetry',
    'reportInventory',
    'reportPlanResult',
  ].includes(name)
    ? `brokkr_BRagentA_${'agentA'.repeat(5)}`
    : undefined
}

/** What no body may set, each with a value it does not have. */
const owned = {
  id: '00000000-0000-4000-8000-00000000dead',
  readonly: true,
  is_system: true,
  generator_id: '00000000-0000-4000-8000-00000000dead',
  sequence_id: 4711471147,
  last_sequence: 4711471147,
  deleted_at: '2020-01-01T00:00:00Z',
  created_at: '2020-01-01T00:00:00Z',
  pak_hash: 'f'.repeat(64),
  pak_short: 'BRhacked',
  is_active: false,
  connection_state: 'connected',
  head_object_id: '00000000-0000-4000-8000-00000000dead',
  invited_generator_ids: ['00000000-0000-4000-8000-00000000dead'],
  rollback_of: '00000000-0000-4000-8000-00000000dead',
  yaml_checksum: 'f'.repeat(64),
  created_by_kind: 'admin',
}

async function marksIn(): Promise<string[]> {
  const client = new pg.Client({ connectionString: broker.databaseUrl })
  await client.connect()
  try {
    const { rows: tables } = await client.query<{ name: string }>(
      `select relname as name from pg_class where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace and not relispartition`,
    )
    const found: string[] = []
    for (const { name } of tables) {
      const { rows } = await client.query<{ row: string }>(`select to_jsonb(t)::text as row from ${name} t`)
      for (const { row } of rows) if (/4711471147|BRhacked|f{64}|00000000dead|2020-01-01T00:00:00/.test(row)) found.push(`${name}: ${row}`)
    }
    return found
  } finally {
    await client.end()
  }
}

const mutations = withBody.filter(([name]) => !['createAdminPak', 'updateGenerator', 'updateStack'].includes(name))

test('[X27] server-owned fields in requests are ignored for every caller', async () => {
  for (const [name] of mutations)
    for (const pak of [broker.adminPak, tenant.generatorPak, tenant.agentPak]) {
      const { call: asked, body } = tenantCall(name, tenant)
      if (typeof body !== 'object' || body === null || name === 'createStack' || name.startsWith('createEvent')) continue
      const { generator_id: _, ...rest } = owned
      await ask(broker, asked, { pak, body: { ...rest, ...body } })
    }
  const { id: _, ...withoutId } = owned
  for (const name of ['createStack', 'createEvent'] as const) {
    const { call: asked, body } = tenantCall(name, tenant)
    // The number an agent names in an event is its own word, kept beside it.
    const { sequence_id: __, ...rest } = withoutId
    await ask(broker, asked, {
      pak: name === 'createStack' ? tenant.generatorPak : tenant.agentPak,
      body: { ...rest, ...(body as object) },
    })
  }
  expect(await marksIn()).toEqual([])
})

test.each<[string, object, string]>([
  ['another id', { id: owned.id }, 'stack_id_mismatch'],
  ['another generator', { generator_id: owned.generator_id }, 'immutable_field'],
  ['a time of deletion', { deleted_at: owned.deleted_at }, 'immutable_field'],
])('[X27] an update of a stack with %s is refused', async (_, body, code) => {
  const answer = await ask(broker, `PUT /stacks/${tenant.stackId}`, { pak: tenant.generatorPak, body: { name: 'renamed', ...body } })
  expect(answer.code).toBe(code)
  expect((await ask(broker, `GET /stacks/${tenant.stackId}`)).text).not.toContain('renamed')
})

test('[X27] a generator cannot become active or a system generator by its own request', async () => {
  const path = `/generators/${tenant.generatorId}` as const
  await broker.admin.updateGenerator({ params: { id: tenant.generatorId }, body: { is_active: false } })
  await ask(broker, `PUT ${path}`, { pak: tenant.generatorPak, body: { is_active: true } })
  expect((await ask(broker, `GET ${path}`)).json).toMatchObject({ is_active: false, is_system: false })
  expect((await ask(broker, `PUT ${path}`, { body: { is_system: true } })).code).toBe('immutable_field')
  expect((await ask(broker, `PUT ${path}`, { body: { id: owned.id } })).code).toBe('immutable_field')
  await broker.admin.updateGenerator({ params: { id: tenant.generatorId }, body: { is_active: true } })
})

test('[X27] an admin PAK is created with permitted fields only', async () => {
  const answer = await ask(broker, 'POST /admin/paks', { body: { ...owned, name: 'made', readonly: true } })
  expect(answer.json).toMatchObject({ name: 'made', readonly: true, last_used_at: null })
  expect((answer.json as { id: string }).id).not.toBe(owned.id)
  expect(await marksIn()).toEqual([])
})
