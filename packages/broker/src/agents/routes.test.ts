// Agents over HTTP, against a real broker: what each operation does, and what it answers to wrong input.
import { generatePak, hashPak } from '@brokkr/contract/auth/pak.ts'
import {
  createAgent,
  createGenerator,
  startTestBroker,
  type TestAgent,
  type TestBroker,
  type TestGenerator,
  unique,
} from '@brokkr/testing/broker.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { ask } from '../http/server/http-call.fixture.ts'

const nowhere = '00000000-0000-4000-8000-00000000dead'
let broker: TestBroker
let tenant: TestGenerator
let one: TestAgent
beforeAll(async () => {
  broker = await startTestBroker()
  tenant = await createGenerator(broker)
  one = await createAgent(broker, { generators: [tenant] })
  return () => broker.kill()
})

const makeStack = (body: { labels?: string[]; annotations?: Record<string, string> } = {}) =>
  tenant.client.createStack({ body: { name: unique('stack'), generator_id: tenant.generator.id, ...body } })
const stacksOf = async ({ agent, client }: TestAgent) =>
  (await client.getAssociatedStacks({ params: { id: agent.id } })).map((stack) => stack.id)

test('an agent is found by name and cluster by admins only', async () => {
  const { name, cluster_name, id } = one.agent
  const query = `name=${name}&cluster_name=${cluster_name}`
  expect((await one.client.searchAgent({ query: { name, cluster_name } })).id).toBe(id)
  const other = await createAgent(broker, { generators: [] })
  expect((await ask(broker, `GET /agents/?${query}`, { pak: other.pak })).code).toBe('agent_pak_mismatch')
  expect((await ask(broker, `GET /agents/?${query}`, { pak: tenant.pak })).code).toBe('agent_pak_mismatch')
  expect((await ask(broker, `GET /agents/?name=${name}&cluster_name=elsewhere`, { pak: tenant.pak })).code).toBe('agent_not_found')
  expect((await ask(broker, `GET /agents/?name=${name}`)).code).toBe('name_and_cluster_required')
})

test('an agent update changes only sent fields and ignores invalid ones', async () => {
  const made = await createAgent(broker, { generators: [] })
  const path = `/agents/${made.agent.id}` as const
  const update = async (body: unknown) => (await ask(broker, `PUT ${path}`, { body, pak: made.pak })).json
  expect(await update({ status: 'RESTING' })).toMatchObject({ status: 'RESTING', name: made.agent.name })
  const before = await made.client.getAgent({ params: { id: made.agent.id } })
  for (const body of [{}, { status: 5, name: null }, ['x'], 'text', null, 7, { id: nowhere, deleted_at: 'x', pak_hash: 'x' }])
    expect(await update(body), JSON.stringify(body)).toEqual(before)
  expect(await update({ name: '  moved  ', cluster_name: made.agent.name })).toMatchObject({ name: 'moved', status: 'RESTING' })
  const clash = await ask(broker, `PUT ${path}`, { body: { name: one.agent.name, cluster_name: one.agent.cluster_name } })
  expect([clash.status, clash.json]).toMatchObject([409, { code: 'unique_violation', details: { constraint: 'unique_agent_cluster' } }])
})

test('a deleted agent loses its PAK, targets, labels, registrations and name', async () => {
  const label = unique('l')
  const stack = await makeStack({ labels: [label] })
  const made = await createAgent(broker, { labels: [label], generators: [tenant] })
  const object = await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: 'a: 1' } })
  const event = { agent_id: made.agent.id, deployment_object_id: object.id, event_type: 'DEPLOY', status: 'SUCCESS' }
  await made.client.createEvent({ params: { id: made.agent.id }, body: event })
  const remove = () => ask(broker, `DELETE /agents/${made.agent.id}`)
  expect([(await remove()).status, (await remove()).status, (await ask(broker, `DELETE /agents/${nowhere}`)).status]).toEqual([
    204, 204, 204,
  ])

  await waitFor('the key to die', async () => (await ask(broker, 'POST /auth/pak', { pak: made.pak })).status === 401)
  expect((await ask(broker, `GET /agents/${made.agent.id}`)).code).toBe('agent_not_found')
  expect((await broker.admin.listAgents({ query: { name: made.agent.name } })).length).toBe(0)
  expect((await tenant.client.getStackStatus({ params: { id: stack.id } })).agents).toEqual([])
  const again = { agent_id: made.agent.id }
  const unknown = { code: 'foreign_key_violation' }
  expect((await ask(broker, `POST /agents/${made.agent.id}/labels`, { body: { ...again, label } })).json).toMatchObject(unknown)
  expect((await ask(broker, `POST /agents/${made.agent.id}/annotations`, { body: { ...again, key: 'k', value: 'v' } })).json).toMatchObject(
    unknown,
  )
  expect((await ask(broker, `POST /generators/${tenant.generator.id}/register`, { body: again })).json).toMatchObject({
    ...unknown,
    details: { constraint: 'agent_generator_registrations_agent_id_fkey' },
  })
  expect((await createAgent(broker, { name: made.agent.name, generators: [] })).agent.id).not.toBe(made.agent.id)
})

test('an annotation targets stacks with the same pair until it is removed', async () => {
  const key = unique('k')
  const stack = await makeStack({ annotations: { [key]: 'a b' } })
  const made = await createAgent(broker, { generators: [tenant] })
  const params = { id: made.agent.id }
  const add = (value: string) => broker.admin.agentsAddAnnotation({ params, body: { agent_id: made.agent.id, key, value } })
  const added = await add('a b')
  expect(added).toMatchObject({ agent_id: made.agent.id, key, value: 'a b' })
  expect(await stacksOf(made)).toEqual([stack.id])
  await expect(add('other')).rejects.toMatchObject({
    code: 'unique_violation',
    details: { constraint: 'agent_annotations_agent_id_key_key' },
  })
  await broker.admin.agentsAddAnnotation({ params, body: { agent_id: made.agent.id, key: 'A', value: 'first' } })
  expect((await made.client.agentsListAnnotations({ params })).map((row) => row.key)).toEqual(['A', key])
  await broker.admin.agentsRemoveAnnotation({ params: { ...params, key } })
  expect(await stacksOf(made)).toEqual([])
  await expect(broker.admin.agentsRemoveAnnotation({ params: { ...params, key } })).rejects.toMatchObject({
    code: 'agent_annotation_not_found',
  })
})

test('registrations are listed newest first, and stacks completely by id', async () => {
  const label = unique('l')
  const stacks = await Promise.all([makeStack({ labels: [label] }), makeStack({ labels: [label] }), makeStack({ labels: [label] })])
  const made = await createAgent(broker, { labels: [label], generators: [tenant] })
  const later = await createGenerator(broker)
  await broker.admin.registerAgent({ params: { id: later.generator.id }, body: { agent_id: made.agent.id } })
  const registrations = await made.client.listAgentRegistrations({ params: { id: made.agent.id } })
  expect([registrations.length, registrations[0]?.generator_id]).toEqual([3, later.generator.id])
  expect(await stacksOf(made)).toEqual(stacks.map((stack) => stack.id).toSorted())
})

test('an agent’s rotated PAK is refused, and an agent may supply its own new PAK', async () => {
  const made = await createAgent(broker, { generators: [] })
  const params = { id: made.agent.id }
  const rotated = await made.client.rotateAgentPak({ params })
  await waitFor('the old key to die', async () => (await ask(broker, 'POST /auth/pak', { pak: made.pak })).status === 401)
  const own = await generatePak()
  const body = { short_token: own.short, pak_hash: own.hash }
  const client = broker.clientOf(rotated.pak!)
  expect(await client.rotateAgentPak({ params, body })).toMatchObject({ pak: null, agent: { id: made.agent.id } })
  // The same again is the same key: an answer that got lost may be asked for once more.
  expect((await broker.clientOf(own.pak).rotateAgentPak({ params, body })).pak).toBeNull()
  expect(await broker.clientOf(own.pak).verifyPak({})).toMatchObject({ agent: made.agent.id })
  await waitFor('the middle key to die', async () => (await ask(broker, 'POST /auth/pak', { pak: rotated.pak })).status === 401)
  const steal = await ask(broker, `POST /agents/${one.agent.id}/rotate-pak`, { pak: one.pak, body })
  expect([steal.status, steal.json]).toMatchObject([409, { details: { constraint: 'unique_agent_pak' } }])
  const ownHash = await ask(broker, `POST /agents/${one.agent.id}/rotate-pak`, {
    pak: one.pak,
    body: { short_token: own.short, pak_hash: await hashPak(broker.adminPak) },
  })
  expect(ownHash.status).toBe(409)
})

test('the filters of the agent list are combined', async () => {
  const [label, key] = [unique('l'), unique('k')]
  const make = (body: { labels?: string[]; annotations?: Record<string, string>; status?: string }) => {
    const name = unique('filtered')
    return broker.admin.createAgent({ body: { name, cluster_name: name, ...body } }).then(({ agent }) => agent.id)
  }
  const both = await make({ labels: [label, 'b'], annotations: { [key]: 'v=1' }, status: 'ODD' })
  const first = await make({ labels: [label] })
  const find = async (query: Parameters<typeof broker.admin.listAgents>[0]['query']) =>
    (await broker.admin.listAgents({ query: query ?? {} })).map((agent) => agent.id)
  expect((await find({ label: [label] })).toSorted()).toEqual([both, first].toSorted())
  expect(await find({ label: [label, 'b', label] })).toEqual([both])
  expect(await find({ label: [label], annotation: [`${key}=v=1`] })).toEqual([both])
  expect(await find({ annotation: [`${key}=v=1`, `${key}=other`] })).toEqual([])
  expect(await find({ label: [label], status: 'ODD' })).toEqual([both])
  expect((await ask(broker, 'GET /agents?annotation=nothing')).code).toBe('invalid_query_parameter')
})

test('a heartbeat updates liveness, returns the record on request and accepts any body', async () => {
  const params = { id: one.agent.id }
  const facts = { preset: 'standard', capabilities: ['orders'] }
  await one.client.recordHeartbeat({ params, body: { k8s_reachable: true, k8s_api_latency_ms: 7, agent_version: '9.9', facts } })
  const answer = await ask(broker, `POST /agents/${one.agent.id}/heartbeat`, {
    pak: one.pak,
    headers: { prefer: 'return=representation' },
  })
  expect([answer.status, answer.header('preference-applied')]).toEqual([200, 'return=representation'])
  expect(answer.json).toMatchObject({
    agent: { id: one.agent.id, connection_state: 'connected', k8s_api_latency_ms: 7, agent_version: '9.9', facts },
    labels: [],
    annotations: [],
  })
  for (const text of ['', '{"', '[]', '{"k8s_reachable": "x"}', `{"facts": {"a": "${'x'.repeat(17_000)}"}}`]) {
    const sent = await ask(broker, `POST /agents/${one.agent.id}/heartbeat`, { pak: one.pak, text })
    expect([text.slice(0, 20), sent.status, sent.text]).toEqual([text.slice(0, 20), 204, ''])
  }
  expect((await one.client.getAgent({ params })).facts).toEqual(facts)
})

const long = 'x'.repeat(256)
test.each<[string, string, unknown, number, string]>([
  ['PUT', '', { name: '' }, 400, 'invalid_agent'],
  ['PUT', '', { name: long }, 400, 'invalid_agent'],
  ['PUT', '', { cluster_name: 'a\u0007b' }, 400, 'invalid_agent'],
  ['PUT', '', { status: '' }, 422, 'validation_failed'],
  ['PUT', '', { status: 'x'.repeat(51) }, 422, 'validation_failed'],
  ['PUT', '', { name: 'a\u0000b' }, 422, 'validation_failed'],
  ['POST', '/annotations', { agent_id: 'ID', key: '', value: 'v' }, 400, 'invalid_annotation'],
  ['POST', '/annotations', { agent_id: 'ID', key: 'a b', value: 'v' }, 400, 'invalid_annotation'],
  ['POST', '/annotations', { agent_id: 'ID', key: 'x'.repeat(65), value: 'v' }, 400, 'invalid_annotation'],
  ['POST', '/annotations', { agent_id: 'ID', key: 'k', value: '' }, 400, 'invalid_annotation'],
  ['POST', '/annotations', { agent_id: 'ID', key: 'k', value: 'x'.repeat(65) }, 400, 'invalid_annotation'],
  ['POST', '/annotations', { agent_id: nowhere, key: 'k', value: 'v' }, 400, 'agent_id_mismatch'],
  ['POST', '/annotations', { agent_id: 'ID', key: 'k' }, 422, 'invalid_request_body'],
  ['POST', '/rotate-pak', { short_token: 'BRabcdef' }, 422, 'invalid_request_body'],
  ['POST', '/rotate-pak', { short_token: 'BR', pak_hash: 'a'.repeat(64) }, 422, 'validation_failed'],
  ['POST', '/rotate-pak', { short_token: 'BRabcdef', pak_hash: 'A'.repeat(64) }, 422, 'validation_failed'],
  ['POST', '/rotate-pak', { short_token: 7 }, 422, 'invalid_request_body'],
])('%s …%s %j → %i %s', async (method, tail, body, status, code) => {
  const sent = JSON.parse(JSON.stringify(body).replaceAll('"ID"', `"${one.agent.id}"`)) as unknown
  const answer = await ask(broker, `${method} /agents/${one.agent.id}${tail}`, { body: sent })
  expect([answer.status, answer.code]).toEqual([status, code])
})

test('no more than 256 annotations on one agent', async () => {
  const made = await createAgent(broker, { generators: [] })
  const annotations = Object.fromEntries(Array.from({ length: 256 }, (_, n) => [`k${n}`, 'v']))
  const name = unique('full')
  const { agent } = await broker.admin.createAgent({ body: { name, cluster_name: name, annotations } })
  const add = (id: typeof agent.id) =>
    broker.admin.agentsAddAnnotation({ params: { id }, body: { agent_id: id, key: 'one-more', value: 'v' } })
  await expect(add(agent.id)).rejects.toMatchObject({ code: 'limit_exceeded', details: { limit: 256 } })
  await expect(add(made.agent.id)).resolves.toMatchObject({ key: 'one-more' })
})
