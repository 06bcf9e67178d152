// Events over HTTP, against a real broker: batches, what an event says about its pair, and the lists.
import { randomUUID } from 'node:crypto'
import type { DeploymentObject } from '@brokkr/contract/deployments/deployment-object.ts'
import {
  createAgent,
  createGenerator,
  startTestBroker,
  type TestAgent,
  type TestBroker,
  type TestGenerator,
  unique,
} from '@brokkr/testing/broker.ts'
import pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { ask } from '../../http/server/http-call.fixture.ts'

let broker: TestBroker
let tenant: TestGenerator
beforeAll(async () => {
  broker = await startTestBroker()
  tenant = await createGenerator(broker)
  return () => broker.kill()
})

/** A stack with a revision on an agent of its own. */
async function deployed() {
  const label = unique('l')
  const stack = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id, labels: [label] } })
  const agent = await createAgent(broker, { labels: [label], generators: [tenant] })
  return { stack, agent, object: await submit(stack.id) }
}
const submit = (id: DeploymentObject['stack_id'], isMarker = false) =>
  tenant.client.createDeploymentObject({ params: { id }, body: { yaml_content: isMarker ? '' : 'a: 1', is_deletion_marker: isMarker } })
const event = (agent: TestAgent, object: { id: string }, rest: object = {}) => ({
  id: randomUUID() as string,
  agent_id: agent.agent.id,
  deployment_object_id: object.id,
  event_type: 'DEPLOY',
  status: 'SUCCESS',
  ...rest,
})
const report = (agent: TestAgent, ...events: ReturnType<typeof event>[]) =>
  agent.client.createEvents({ params: { id: agent.agent.id }, body: { events } })
const phaseOf = async (stackId: DeploymentObject['stack_id']) =>
  (await tenant.client.getStackStatus({ params: { id: stackId } })).agents.map(({ phase, code }) => [phase, code])

test('an event batch stores valid events and rejects the others one by one', async () => {
  const [own, foreign] = [await deployed(), await deployed()]
  const { agent, object } = own
  const first = event(agent, object)
  const taken = event(foreign.agent, foreign.object)
  await report(foreign.agent, taken)
  const sent = [
    first,
    { ...first },
    event(agent, foreign.object),
    event(agent, { id: randomUUID() }),
    event(agent, object, { agent_id: foreign.agent.agent.id }),
    event(agent, object, { status: 'x'.repeat(11) }),
    event(agent, object, { event_type: '' }),
    event(agent, object, { id: taken.id }),
    event(agent, object, {
      event_type: 'FAILED',
      status: 'FAILURE',
      message: 'm'.repeat(20_000),
      attempt: 2,
      error_code: 'E',
      resources: [],
    }),
  ]
  const { results } = await report(agent, ...sent)
  expect(results.map(({ status, code }) => code ?? status)).toEqual([
    'stored',
    'duplicate',
    'agent_not_associated',
    'foreign_key_violation',
    'agent_id_mismatch',
    'validation_failed',
    'validation_failed',
    'unique_violation',
    'stored',
  ])
  expect(results.map(({ id }) => id)).toEqual(sent.map(({ id }) => id))
  const listed = await agent.client.listEvents({ params: { id: agent.agent.id } })
  expect(listed.map(({ id }) => id)).toEqual([sent[8]!.id, first.id])
  expect(listed[0]).toMatchObject({ attempt: 2, error_code: 'E', resources: [], sequence_id: null })
  expect(listed[0]?.message).toHaveLength(16_384 + '…[cut]'.length)
  expect((await report(agent, first)).results).toEqual([{ id: first.id, status: 'duplicate' }])
  // An acknowledged revision leaves the incremental list.
  expect(await agent.client.getTargetState({ params: { id: agent.agent.id } })).toEqual([])
})

test.each<[string, number, unknown]>([
  ['no events', 422, { events: [] }],
  ['an event without id', 422, { events: [{ agent_id: randomUUID(), deployment_object_id: randomUUID(), event_type: 'x', status: 'y' }] }],
  ['201 events', 422, { events: Array.from({ length: 201 }, () => ({})) }],
  ['no list', 422, { events: {} }],
  ['nothing', 422, {}],
])('a batch of %s is refused whole', async (_, status, body) => {
  const agent = await createAgent(broker, { generators: [] })
  expect((await ask(broker, `POST /agents/${agent.agent.id}/events/batch`, { pak: agent.pak, body })).status).toBe(status)
})

test('SUCCESS on a deletion marker ends the removal for every event name', async () => {
  const { stack, agent } = await deployed()
  await tenant.client.deleteStack({ params: { id: stack.id } })
  const [marker] = await agent.client.getTargetState({ params: { id: agent.agent.id } })
  await report(agent, event(agent, marker!, { status: 'FAILURE' }))
  const full = () => agent.client.getTargetState({ params: { id: agent.agent.id }, query: { mode: 'full' } })
  expect((await full()).map(({ id }) => id)).toEqual([marker!.id])
  await report(agent, event(agent, marker!, { status: 'success' }))
  expect(await full()).toEqual([])
})

test('a DELETED event ends a removal unless it is about an older deployment object', async () => {
  const { stack, agent, object } = await deployed()
  const marker = await submit(stack.id, true)
  const again = await submit(stack.id)
  await report(agent, event(agent, object), event(agent, again))
  await broker.admin.deregisterAgent({ params: { id: tenant.generator.id }, body: { agent_id: agent.agent.id } })
  expect(await phaseOf(stack.id)).toEqual([['pending', 'removing']])
  await report(agent, event(agent, marker))
  expect(await phaseOf(stack.id)).toEqual([['pending', 'removing']])
  await report(agent, event(agent, again, { event_type: 'DELETED' }))
  expect(await phaseOf(stack.id)).toEqual([])
})

test('only the latest deployment object ends a target, and a new one makes it pending', async () => {
  const { stack, agent } = await deployed()
  const marker = await submit(stack.id, true)
  await report(agent, event(agent, marker))
  expect(await phaseOf(stack.id)).toEqual([['removed', null]])
  await submit(stack.id)
  expect(await phaseOf(stack.id)).toEqual([['pending', 'applying']])
  await report(agent, event(agent, marker))
  expect(await phaseOf(stack.id)).toEqual([['pending', 'applying']])
})

test('an agent may report on a deployment object of a deleted stack', async () => {
  const { stack, agent, object } = await deployed()
  await tenant.client.deleteStack({ params: { id: stack.id } })
  expect((await report(agent, event(agent, object))).results[0]?.status).toBe('stored')
})

test('the list of all events is oldest first and its filters must all hold', async () => {
  const { stack, agent, object } = await deployed()
  const [first, second] = [event(agent, object), event(agent, object, { event_type: 'UPDATED' })]
  await report(agent, first)
  await report(agent, second)
  const stored = await broker.admin.getAgentEvent({ params: { id: second.id } })
  const find = async (query: NonNullable<Parameters<typeof broker.admin.listAgentEvents>[0]['query']>) =>
    (await broker.admin.listAgentEvents({ query })).map(({ id }) => id)
  expect(await find({ agent_id: agent.agent.id })).toEqual([first.id, second.id])
  expect(await find({ stack_id: stack.id })).toEqual([first.id, second.id])
  expect(await find({ stack_id: stack.id, event_type: 'UPDATED' })).toEqual([second.id])
  expect(await find({ agent_id: agent.agent.id, since: stored.created_at })).toEqual([second.id])
  expect(await find({ pak_id: tenant.generator.id, agent_id: agent.agent.id })).toEqual([first.id, second.id])
  expect(await find({ pak_id: randomUUID() })).toEqual([])
  const all = await find({})
  expect(all.indexOf(second.id)).toBe(all.indexOf(first.id) + 1)
  expect((await ask(broker, `GET /agent-events/${randomUUID()}`)).code).toBe('agent_event_not_found')
  for (const query of ['pak_id=x', 'since=yesterday', 'agent_id=', 'stack_id=1&stack_id=2'])
    expect((await ask(broker, `GET /agent-events?${query}`)).code, query).toBe('invalid_query_parameter')
})

test('events of one agent and object wait for no lock of the agent or its acknowledgement', async () => {
  const { agent, object } = await deployed()
  await report(agent, event(agent, object))
  const holder = new pg.Client({ connectionString: broker.databaseUrl })
  await holder.connect()
  await holder.query('begin')
  await holder.query('select from agents where id = $1 for no key update', [agent.agent.id])
  await holder.query('select from agent_object_acks where agent_id = $1 for update', [agent.agent.id])
  expect(await report(agent, event(agent, object))).toMatchObject({ results: [{ status: 'stored' }] })
  await holder.query('rollback')
  await holder.end()
})

test('the overview returns null for resources that do not exist yet', async () => {
  expect(await broker.admin.getOverview({})).toMatchObject({
    holds: 0,
    work_orders: { pending: 0, claimed: 0, retry_pending: 0 },
    decisions: { agents_waiting: null, approvals: null },
  })
})
