// Generators over HTTP, against a real broker: their record, their key, what goes with them.
import { createAgent, createGenerator, startTestBroker, type TestBroker, type TestGenerator, unique } from '@brokkr/testing/broker.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { ask } from '../http/server/http-call.fixture.ts'

const nowhere = '00000000-0000-4000-8000-00000000dead'
let broker: TestBroker
let other: TestGenerator
let systemId: string
beforeAll(async () => {
  broker = await startTestBroker()
  other = await createGenerator(broker)
  const agent = await createAgent(broker, { generators: [] })
  systemId = (await agent.client.listAgentRegistrations({ params: { id: agent.agent.id } }))[0]!.generator_id
  return () => broker.kill()
})
const update = (tenant: TestGenerator, body: unknown, pak?: string) =>
  ask(broker, `PUT /generators/${tenant.generator.id}`, { body, ...(pak === undefined ? {} : { pak }) })

test('a generator update accepts all or some fields and keeps omitted or null ones', async () => {
  const tenant = await createGenerator(broker)
  const whole = { ...tenant.generator, description: 'first' }
  expect((await update(tenant, whole, tenant.pak)).json).toMatchObject({ description: 'first' })
  const before = await tenant.client.getGenerator({ params: { id: tenant.generator.id } })
  for (const body of [{}, { description: null, name: null, is_active: null, id: null }, { ...before, unknown: 1 }])
    expect((await update(tenant, body)).json).toEqual(before)
  const name = unique('renamed')
  expect((await update(tenant, { name: ` ${name} ` })).json).toMatchObject({ name, description: 'first' })
  expect((await update(tenant, { name: other.generator.name })).json).toMatchObject({ details: { constraint: 'unique_generator_name' } })
})

test('a generator cannot activate itself, and an inactive generator is read-only', async () => {
  const tenant = await createGenerator(broker)
  expect((await update(tenant, { is_active: false }, tenant.pak)).json).toMatchObject({ is_active: true })
  expect((await update(tenant, { is_active: false })).json).toMatchObject({ is_active: false })
  const stack = { name: unique('s'), generator_id: tenant.generator.id }
  const denied = await ask(broker, 'POST /stacks', { pak: tenant.pak, body: stack })
  expect([denied.status, denied.code]).toEqual([403, 'generator_inactive'])
  expect((await ask(broker, 'GET /stacks', { pak: tenant.pak })).status).toBe(200)
  await update(tenant, { is_active: true })
  expect((await ask(broker, 'POST /stacks', { pak: tenant.pak, body: stack })).status).toBe(201)
})

test('a rotated generator PAK is refused by the next call', async () => {
  const tenant = await createGenerator(broker)
  await tenant.client.verifyPak({})
  const { pak } = await tenant.client.rotateGeneratorPak({ params: { id: tenant.generator.id } })
  expect((await ask(broker, 'POST /auth/pak', { pak: tenant.pak })).status).toBe(401)
  expect((await ask(broker, 'POST /auth/pak', { pak })).json).toMatchObject({ generator: tenant.generator.id })
  expect((await ask(broker, `POST /generators/${systemId}/rotate-pak`)).code).toBe('cannot_rotate_system_generator')
})

test('a deleted generator loses stacks, PAK and registrations, and agents remove its objects', async () => {
  const tenant = await createGenerator(broker)
  const label = unique('l')
  const make = () => tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id, labels: [label] } })
  const [first, second] = [await make(), await make()]
  await tenant.client.createDeploymentObject({ params: { id: first.id }, body: { yaml_content: 'a: 1' } })
  const agent = await createAgent(broker, { labels: [label], generators: [tenant] })
  expect((await tenant.client.listGeneratorRegisteredAgents({ params: { id: tenant.generator.id } })).map((row) => row.agent_id)).toEqual([
    agent.agent.id,
  ])
  expect((await ask(broker, `DELETE /generators/${tenant.generator.id}`, { pak: tenant.pak })).status).toBe(204)

  expect((await ask(broker, 'POST /auth/pak', { pak: tenant.pak })).status).toBe(401)
  for (const stack of [first, second]) expect((await ask(broker, `GET /stacks/${stack.id}`)).code).toBe('stack_not_found')
  const state = await agent.client.getTargetState({ params: { id: agent.agent.id } })
  expect(state.map((item) => `${item.stack_id} ${item.is_deletion_marker} ${item.yaml_content}`).toSorted()).toEqual(
    [first.id, second.id].map((id) => `${id} true `).toSorted(),
  )
  expect((await agent.client.listAgentRegistrations({ params: { id: agent.agent.id } })).map((row) => row.generator_id)).toEqual([systemId])
  expect((await ask(broker, `DELETE /generators/${tenant.generator.id}`)).code).toBe('generator_not_found')
  expect((await ask(broker, `DELETE /generators/${systemId}`)).code).toBe('cannot_delete_system_generator')
  // Gone also to whoever names it; its name is free again.
  const late = await ask(broker, 'POST /stacks', { body: { name: unique('s'), generator_id: tenant.generator.id } })
  expect([late.status, late.json]).toMatchObject([
    422,
    { code: 'foreign_key_violation', details: { constraint: 'stacks_generator_id_fkey' } },
  ])
  expect((await createGenerator(broker, tenant.generator.name)).generator.id).not.toBe(tenant.generator.id)
})

test('deregistration removes all targets of the generator and is idempotent', async () => {
  const tenant = await createGenerator(broker)
  const stack = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id } })
  const agent = await createAgent(broker, { generators: [tenant] })
  await tenant.client.addTarget({ params: { id: agent.agent.id }, body: { agent_id: agent.agent.id, stack_id: stack.id } })
  const stacks = () => agent.client.getAssociatedStacks({ params: { id: agent.agent.id } })
  expect((await stacks()).length).toBe(1)
  // An agent speaks for itself, whatever its body says.
  const foreign = (await createAgent(broker, { generators: [] })).agent.id
  await agent.client.deregisterAgent({ params: { id: tenant.generator.id }, body: { agent_id: foreign } })
  expect(await stacks()).toEqual([])
  await broker.admin.deregisterAgent({ params: { id: tenant.generator.id }, body: { agent_id: agent.agent.id } })
  // Invited at its creation, it may come back by itself, without what was aimed at it.
  await agent.client.registerAgent({ params: { id: tenant.generator.id }, body: {} })
  expect(await stacks()).toEqual([])
})

test('the list for choosing a tenant has live generators by name, without the system one', async () => {
  const paks = await broker.admin.listPaks({})
  expect(Object.keys(paks[0] ?? {}).toSorted()).toEqual(['id', 'name'])
  expect(paks.map(({ name }) => name)).toEqual((await broker.admin.listGenerators({})).map(({ name }) => name))
  expect(paks.map(({ name }) => name)).not.toContain('__system__')
})

test.each<[string, string, unknown, number, string]>([
  ['PUT', 'OWN', { id: nowhere }, 422, 'immutable_field'],
  ['PUT', 'OWN', { is_system: true }, 422, 'immutable_field'],
  ['PUT', 'OWN', { name: '' }, 422, 'validation_failed'],
  ['PUT', 'OWN', { name: 'x'.repeat(256) }, 422, 'validation_failed'],
  ['PUT', 'OWN', { description: 'x'.repeat(4097) }, 422, 'validation_failed'],
  ['PUT', 'OWN', { name: 5 }, 422, 'invalid_request_body'],
  ['PUT', 'OWN', [], 422, 'invalid_request_body'],
  ['PUT', nowhere, {}, 404, 'not_found'],
  ['GET', nowhere, undefined, 404, 'generator_not_found'],
  ['POST', `${nowhere}/rotate-pak`, undefined, 404, 'generator_not_found'],
  ['GET', `${nowhere}/registered-agents`, undefined, 404, 'generator_not_found'],
  ['DELETE', 'OWN/register', {}, 400, 'missing_agent_id'],
  ['DELETE', 'OWN/register', { agent_id: null }, 400, 'missing_agent_id'],
  ['DELETE', 'OWN/register', { agent_id: 'no' }, 422, 'invalid_request_body'],
  ['DELETE', 'OWN/register', undefined, 400, 'invalid_json'],
  ['DELETE', `${nowhere}/register`, { agent_id: nowhere }, 404, 'generator_not_found'],
])('%s /generators/%s %j → %i %s', async (method, tail, body, status, code) => {
  const answer = await ask(broker, `${method} /generators/${tail.replace('OWN', other.generator.id)}`, { body })
  expect([answer.status, answer.code]).toEqual([status, code])
})

test('a rotated PAK is dropped from the cache of another process', async () => {
  const second = await startTestBroker({
    databaseUrl: broker.databaseUrl,
    env: { BROKKR__BROKER__ENCRYPTION_KEY: broker.encryptionKey },
  })
  try {
    const tenant = await createGenerator(broker)
    expect((await ask(second, 'POST /auth/pak', { pak: tenant.pak })).status).toBe(200)
    await broker.admin.rotateGeneratorPak({ params: { id: tenant.generator.id } })
    await waitFor(
      'the other broker to refuse the key',
      async () => (await ask(second, 'POST /auth/pak', { pak: tenant.pak })).status === 401,
    )
  } finally {
    await second.kill()
  }
})
