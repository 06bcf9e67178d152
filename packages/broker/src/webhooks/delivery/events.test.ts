// What webhooks are told of what actions do, on two brokers and one database: every event that this release knows, in the words of
// the wire, once, and in the transaction of the action.
// long: starts more than one broker
import { randomUUID } from 'node:crypto'
import { type TestAgent, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { configMapYaml, type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { subscribe } from './subscribe.fixture.ts'

let world: FeedWorld
let other: TestBroker
let everything: string
beforeAll(async () => {
  world = await feedWorld()
  other = await world.broker.sibling()
  everything = await subscribe(world, ['*'])
  // Both learn it from the feed: nobody has told them.
  await waitFor('both to know of it', async () => {
    await Promise.all([world.broker, other].map((broker) => probe(broker)))
    return (await told({ event_type: 'agent.deregistered' })).length >= 2
  })
  return () => Promise.all([world.broker.kill(), other.kill()])
})

interface Told {
  readonly event_type: string
  readonly event_id: string
  readonly payload: { id: string; event_type: string; timestamp: string; data: Record<string, unknown> }
}
const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/) as string
/** Deliveries to a subscription whose data holds all this, oldest first. */
const told = ({ event_type = null, ...data }: Record<string, string | null>, subscription = everything): Promise<Told[]> =>
  world.sql<Told>(
    `select event_type, event_id, payload::json as payload from webhook_deliveries
     where subscription_id = $1 and ($2::text is null or event_type = $2) and (payload::jsonb->'data') @> $3 order by created_at, id`,
    [subscription, event_type, data],
  )
const datasOf = async (which: Record<string, string>) => (await told(which)).map(({ event_type, payload }) => [event_type, payload.data])

async function probe(broker: TestBroker): Promise<void> {
  const name = unique('probe')
  const { agent } = await broker.admin.createAgent({ body: { name, cluster_name: name } })
  await broker.admin.deleteAgent({ params: { id: agent.id } })
}

async function deployed(): Promise<{ agent: TestAgent; stack: { id: string }; object: { id: string; sequence_id: number } }> {
  const label = unique('l')
  const stack = await world.stack([label])
  const agent = await world.agent([label])
  return { agent, stack, object: await world.submit(stack.id, 'x') }
}

test('agent events are sent on registration, first heartbeat and deregistration', async () => {
  const { agent, client } = await world.agent()
  const { id: agent_id, name, cluster_name } = agent
  await client.recordHeartbeat({ params: { id: agent_id } })
  await client.recordHeartbeat({ params: { id: agent_id } })
  await world.broker.admin.deleteAgent({ params: { id: agent_id } })
  await world.broker.admin.deleteAgent({ params: { id: agent_id } })
  expect(await datasOf({ agent_id })).toEqual([
    ['agent.registered', { agent_id, name, cluster_name, status: 'ACTIVE', created_at: agent.created_at }],
    ['agent.connected', { agent_id, name, cluster_name, transport: 'rest', connected_at: time }],
    ['agent.deregistered', { agent_id, deleted_at: time }],
  ])
})

test('stack and deployment object events are sent for every change', async () => {
  const tenant = await world.broker.admin.createGenerator({ body: { name: unique('g') } })
  const client = other.clientOf(tenant.pak)
  const make = () => client.createStack({ body: { name: unique('s'), description: 'd', generator_id: tenant.generator.id } })
  const [one, two] = [await make(), await make()]
  const body = { yaml_content: configMapYaml('1') }
  const first = await client.createDeploymentObject({ params: { id: one.id }, body })
  const again = await client.rollbackStack({ params: { id: one.id }, body: { sequence_id: first.sequence_id } })
  await client.deleteStack({ params: { id: one.id } })
  await world.broker.admin.deleteGenerator({ params: { id: tenant.generator.id } })
  const revision = ({ id, sequence_id, created_at }: typeof first) => ({
    deployment_object_id: id,
    stack_id: one.id,
    sequence_id,
    created_at,
  })
  const made = ({ id, name, description, created_at }: typeof one) => ({ stack_id: id, name, description, created_at })
  expect(await datasOf({ stack_id: one.id })).toEqual([
    ['stack.created', made(one)],
    ['deployment.created', revision(first)],
    ['deployment.created', revision(again)],
    ['stack.deleted', { stack_id: one.id, deleted_at: time }],
  ])
  expect(await datasOf({ stack_id: two.id })).toEqual([
    ['stack.created', made(two)],
    ['stack.deleted', { stack_id: two.id, deleted_at: time }],
  ])
})

test.each([
  ['DEPLOY', 'SUCCESS', ['deployment.applied']],
  ['APPLIED', 'success', ['deployment.applied']],
  ['SOMETHING', 'SUCCESS', ['deployment.applied']],
  ['SOMETHING', 'FAILURE', ['deployment.failed']],
  ['UPDATED', 'SUCCESS', ['deployment.applied', 'deployment.updated']],
  ['UPDATED', 'ERROR', ['deployment.failed']],
  ['DELETED', 'SUCCESS', ['deployment.deleted']],
  ['DELETED', 'FAILURE', ['deployment.failed']],
  ['FAILED', 'SUCCESS', ['deployment.failed']],
  ['HEALTH_CHECK', 'SUCCESS', []],
  ['DRIFT', 'FAILURE', ['deployment.drifted']],
])('an agent that reports %s with %s is told on as %j', async (event_type, status, types) => {
  const { agent, stack, object } = await deployed()
  const id = randomUUID()
  const changes = [{ kind: 'Deployment', name: 'api', path: '/spec/replicas', manager: 'kubectl', operation: 'Update' }]
  const event = { id, agent_id: agent.agent.id, deployment_object_id: object.id, event_type, status, message: 'm', changes }
  const report = () => agent.client.createEvent({ params: { id: agent.agent.id }, body: event })
  const { created_at } = await report()
  await report() // the same again is nothing new
  const data = {
    agent_event_id: id,
    agent_id: agent.agent.id,
    deployment_object_id: object.id,
    stack_id: stack.id,
    sequence_id: object.sequence_id,
    event_type,
    status,
    message: 'm',
    error_code: null,
    created_at,
  }
  const more: Record<string, object> = {
    'deployment.deleted': { deleted_at: created_at },
    'deployment.drifted': { changes: [{ kind: 'Deployment', namespace: null, name: 'api', path: '/spec/replicas', manager: 'kubectl' }] },
  }
  expect(await datasOf({ agent_event_id: id })).toEqual(types.map((type) => [type, { ...data, ...more[type] }]))
})

test('a health event is sent on changes only and contains the previous state', async () => {
  const { agent, stack, object } = await deployed()
  const at = (second: number) => `2026-01-02T03:04:0${second}.000000Z`
  const summary = { pods_ready: 1, pods_total: 2, conditions: [], progressing: true }
  const report = (status: string, second: number, more: object = {}) =>
    agent.client.updateHealthStatus({
      params: { id: agent.agent.id },
      body: { deployment_objects: [{ id: object.id, status, checked_at: at(second), ...more }] },
    })
  await report('healthy', 3)
  await report('healthy', 4)
  await report('failing', 2) // older
  await report('degraded', 5, { summary })
  const data = { agent_id: agent.agent.id, deployment_object_id: object.id, stack_id: stack.id }
  expect(await datasOf({ event_type: 'deployment.health.changed', stack_id: stack.id })).toEqual([
    [
      'deployment.health.changed',
      { ...data, previous_status: null, status: 'healthy', progressing: false, summary: null, checked_at: at(3) },
    ],
    [
      'deployment.health.changed',
      { ...data, previous_status: 'healthy', status: 'degraded', progressing: true, summary, checked_at: at(5) },
    ],
  ])
})

test('a webhook message has one id for all subscriptions that match', async () => {
  const stack = await world.stack()
  const same = await subscribe(world, ['deployment.*'], { stack_id: stack.id })
  const foreign = await subscribe(world, ['stack.*', 'agent.*'])
  const object = await waitFor('the broker to know of them', async () => {
    const made = await world.submit(stack.id, 'x')
    return (await told({ deployment_object_id: made.id }, same)).length > 0 ? made : undefined
  })
  const elsewhere = await world.stack()
  await world.submit(elsewhere.id, 'x')
  const [mine] = await told({ deployment_object_id: object.id }, same)
  const [all] = await told({ deployment_object_id: object.id })
  expect(mine).toEqual(all)
  expect(mine!.payload).toEqual({
    id: mine!.event_id,
    event_type: 'deployment.created',
    timestamp: time,
    data: expect.any(Object) as object,
  })
  expect(await told({ stack_id: elsewhere.id }, same)).toEqual([])
  expect(await told({ event_type: 'deployment.created' }, foreign)).toEqual([])
})

test('a failed action creates no delivery', async () => {
  const before = (await told({})).length
  const missing = { params: { id: randomUUID() }, body: { yaml_content: configMapYaml('x') } }
  await expect(world.broker.admin.createDeploymentObject(missing)).rejects.toMatchObject({ code: 'stack_not_found' })
  const stack = await world.stack()
  const stale = { params: { id: stack.id }, query: { expected_sequence_id: 7 }, body: { yaml_content: configMapYaml('x') } }
  await expect(world.tenant.client.createDeploymentObject(stale)).rejects.toMatchObject({ code: 'stack_moved' })
  expect((await told({})).length).toBe(before + 1)
})

test('a concurrently deleted subscription does not fail an action', async () => {
  const gone = await subscribe(world, ['stack.created'])
  await waitFor('the broker to know of it', async () => (await told({ stack_id: (await world.stack()).id }, gone)).length > 0)
  await world.sql('delete from webhook_subscriptions where id = $1', [gone])
  await world.stack()
})
