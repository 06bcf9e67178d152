// Health, fleet and overview over HTTP, against a real broker.
// long: starts more than one broker
import { randomUUID } from 'node:crypto'
import type { FleetAgentRecord, Overview } from '@brokkr/contract/agents/fleet.ts'
import type { ListedStack } from '@brokkr/contract/stacks/stack.ts'
import {
  createAgent,
  createGenerator,
  startTestBroker,
  type TestAgent,
  type TestBroker,
  type TestGenerator,
  unique,
} from '@brokkr/testing/broker.ts'
import { readStream } from '@brokkr/testing/stream-reader.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { ask } from '../http/server/http-call.fixture.ts'

let broker: TestBroker
let tenant: TestGenerator
beforeAll(async () => {
  broker = await startTestBroker()
  tenant = await createGenerator(broker)
  return () => broker.kill()
})

async function deployed(agents = 1) {
  const label = unique('l')
  const stack = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id, labels: [label] } })
  const object = await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: 'a: 1' } })
  const made = await Promise.all(Array.from({ length: agents }, () => createAgent(broker, { labels: [label], generators: [tenant] })))
  return { stack, object, agents: made, agent: made[0]! }
}
const record = (id: string, status: string, rest: object = {}) => ({ id, status, checked_at: '2026-01-02T03:04:05Z', ...rest })
const report = (agent: TestAgent, ...deployment_objects: object[]) =>
  ask(broker, `PATCH /agents/${agent.agent.id}/health-status`, { pak: agent.pak, body: { deployment_objects } })

test('a health report is stored unless it is older, and the worst agent decides', async () => {
  const { stack, object, agents } = await deployed(2)
  const [first, second] = agents as [TestAgent, TestAgent]
  const summary = {
    pods_ready: 1,
    pods_total: 2,
    conditions: ['Slow'],
    resources: [{ kind: 'Deployment', name: 'd', namespace: 'n', ready: false }],
  }
  const stored = await report(first, record(object.id, 'degraded', { summary }))
  expect([stored.status, stored.text]).toEqual([200, ''])
  await report(first, record(object.id, 'failing', { checked_at: '2026-01-02T03:04:04.999Z' }))
  await report(second, record(object.id, 'healthy'), record(object.id, 'failing', { checked_at: '2026-01-01T00:00:00Z' }))
  const shown = await broker.admin.getDeploymentHealth({ params: { id: object.id } })
  expect(shown).toMatchObject({ deployment_object_id: object.id, overall_status: 'degraded' })
  const own = shown.health_records.find(({ agent_id }) => agent_id === first.agent.id)
  expect(own).toMatchObject({ status: 'degraded', checked_at: '2026-01-02T03:04:05.000000Z' })
  expect(JSON.parse(own!.summary!)).toEqual(summary)
  expect(await broker.admin.getStackHealth({ params: { id: stack.id } })).toEqual({
    stack_id: stack.id,
    overall_status: 'degraded',
    deployment_objects: [{ id: object.id, status: 'degraded', healthy_agents: 1, degraded_agents: 1, failing_agents: 0 }],
  })
  const status = await tenant.client.getStackStatus({ params: { id: stack.id } })
  expect(status.agents.map(({ health }) => health).toSorted()).toEqual(['degraded', 'healthy'])
})

test('the health of an unknown stack or deployment object is unknown', async () => {
  const { stack, object, agent } = await deployed()
  await report(agent, record(object.id, 'healthy'))
  await tenant.client.deleteStack({ params: { id: stack.id } })
  for (const id of [stack.id, randomUUID()])
    expect((await ask(broker, `GET /stacks/${id}/health`)).json).toEqual({
      stack_id: id,
      overall_status: 'unknown',
      deployment_objects: [],
    })
  const nowhere = randomUUID()
  const empty = { deployment_object_id: nowhere, health_records: [], overall_status: 'unknown' }
  expect((await ask(broker, `GET /deployment-objects/${nowhere}/health`)).json).toEqual(empty)
})

test('a health report with one invalid record is rejected as a whole', async () => {
  const [{ object, agent }, foreign] = [await deployed(), await deployed()]
  const good = record(object.id, 'healthy')
  const soon = new Date(Date.now() + 10 * 60_000).toISOString()
  const huge = { pods_ready: 1, pods_total: 1, conditions: ['x'.repeat(70_000)] }
  const cases: [object, number, string][] = [
    [record(object.id, 'great'), 422, 'invalid_health_record'],
    [record(object.id, 'healthy', { checked_at: soon }), 422, 'invalid_health_record'],
    [record(object.id, 'healthy', { summary: huge }), 422, 'invalid_health_record'],
    [record(foreign.object.id, 'healthy'), 403, 'agent_not_associated'],
    [record(randomUUID(), 'healthy'), 422, 'foreign_key_violation'],
    [record('no', 'healthy'), 422, 'invalid_request_body'],
    [record(object.id, 'healthy', { checked_at: 'yesterday' }), 422, 'invalid_request_body'],
    [record(object.id, 'healthy', { summary: { pods_ready: 'x' } }), 422, 'invalid_request_body'],
  ]
  for (const [wrong, status, code] of cases) {
    const answer = await report(agent, good, wrong)
    expect([answer.status, answer.code, JSON.stringify(wrong).slice(0, 80)]).toEqual([status, code, JSON.stringify(wrong).slice(0, 80)])
  }
  expect((await report(agent, ...Array.from({ length: 1001 }, () => good))).code).toBe('validation_failed')
  expect((await broker.admin.getDeploymentHealth({ params: { id: object.id } })).health_records).toEqual([])
  expect((await report(agent)).status).toBe(200)
  // Admins may report for an agent, about anything that exists.
  const asAdmin = await ask(broker, `PATCH /agents/${agent.agent.id}/health-status`, {
    body: { deployment_objects: [record(foreign.object.id, 'failing')] },
  })
  expect(asAdmin.status).toBe(200)
})

test('the fleet lists pending work per agent, and pak_id filters by generator', async () => {
  const other = await createGenerator(broker)
  const { object, agent } = await deployed()
  const foreign = await other.client.createStack({ body: { name: unique('s'), generator_id: other.generator.id } })
  await other.client.createDeploymentObject({ params: { id: foreign.id }, body: { yaml_content: 'a: 1' } })
  await broker.admin.registerAgent({ params: { id: other.generator.id }, body: { agent_id: agent.agent.id } })
  await other.client.addTarget({ params: { id: agent.agent.id }, body: { agent_id: agent.agent.id, stack_id: foreign.id } })
  const params = { id: agent.agent.id }
  const recordOf = async (): Promise<FleetAgentRecord> => (await broker.admin.getAgentFleetStatus({ params })).record
  expect(await recordOf()).toMatchObject({
    agent_id: agent.agent.id,
    ws_connected: false,
    connected_since: null,
    last_heartbeat: null,
    heartbeat_age_seconds: null,
    pending_object_count: 2,
    last_event_at: null,
    seconds_since_last_event: null,
    health_failing: 0,
  })
  await agent.client.recordHeartbeat({ params, body: { k8s_reachable: true, k8s_api_latency_ms: 3 } })
  const event = { agent_id: agent.agent.id, deployment_object_id: object.id, event_type: 'DEPLOY', status: 'SUCCESS' }
  await agent.client.createEvent({ params, body: event })
  await report(agent, record(object.id, 'failing'))
  const seen = await recordOf()
  expect(seen).toMatchObject({ pending_object_count: 1, health_failing: 1, health_degraded: 0, k8s_api_latency_ms: 3 })
  expect([seen.heartbeat_age_seconds, seen.seconds_since_last_event].every((age) => age !== null && age >= 0)).toBe(true)
  expect((await broker.admin.getAgentFleetStatus({ params })).recent_events).toHaveLength(1)
  const narrowed = await broker.admin.listFleet({ query: { pak_id: other.generator.id } })
  expect(narrowed.map(({ agent_id, pending_object_count }) => [agent_id, pending_object_count])).toEqual([[agent.agent.id, 1]])
  expect((await broker.admin.listFleet({ query: { pak_id: tenant.generator.id } })).map(({ agent_id }) => agent_id)).toContain(
    agent.agent.id,
  )
  expect((await ask(broker, 'GET /fleet?pak_id=no')).code).toBe('invalid_query_parameter')
})

test('an agent with an open stream is connected in every process', async () => {
  const second = await startTestBroker({
    databaseUrl: broker.databaseUrl,
    env: { BROKKR__BROKER__ENCRYPTION_KEY: broker.encryptionKey },
  })
  try {
    const agent = await createAgent(broker, { generators: [] })
    const stream = await readStream(broker.url, { agentId: agent.agent.id, pak: agent.pak })
    const connected = async () =>
      ((await ask(second, `GET /agents/${agent.agent.id}/fleet-status`, { pak: broker.adminPak })).json as { record: FleetAgentRecord })
        .record.ws_connected
    await waitFor('the other broker to know of the stream', connected)
    stream.close()
    await waitFor('the other broker to know that it is gone', async () => !(await connected()))
  } finally {
    await second.kill()
  }
})

test('stacks carry their counts on request, and can be filtered by them', async () => {
  const { stack, object, agents } = await deployed(3)
  const [first, second] = agents as [TestAgent, TestAgent, TestAgent]
  for (const agent of [first, second]) {
    await agent.client.recordHeartbeat({ params: { id: agent.agent.id } })
    await agent.client.reportStatus({
      params: { id: agent.agent.id },
      body: {
        session: 1,
        n: 1,
        stacks: [
          {
            stack_id: stack.id,
            rev: 1,
            object_id: object.id,
            phase: agent === first ? 'applied' : 'failed',
            code: agent === first ? 'drifted' : 'x',
            observed_at: '2026-01-02T03:04:05Z',
          },
        ],
      },
    })
    await report(agent, record(object.id, 'healthy'))
  }
  const list = async (query: string) =>
    (await ask(broker, `GET /stacks?name=${stack.name}${query}`, { pak: tenant.pak })).json as ListedStack[]
  expect((await list(''))[0]).not.toHaveProperty('status')
  expect((await list('&include=status'))[0]?.status).toEqual({
    desired_sequence_id: 1,
    agents_total: 3,
    agents_current: 1,
    agents_failed: 1,
    health: 'unknown',
    drifted: 1,
    held: false,
    oldest_seen_at: null,
  })
  expect(await list('&include=status&health=unknown&drifted=true&held=false')).toHaveLength(1)
  expect(await list('&include=status&health=healthy')).toEqual([])
  // A new revision is nobody's yet.
  await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: 'a: 2' } })
  expect((await list('&include=status'))[0]?.status).toMatchObject({ desired_sequence_id: 2, agents_current: 0 })
  for (const query of ['include=all', 'health=healthy', 'include=status&health=fine', 'include=status&held=maybe'])
    expect((await ask(broker, `GET /stacks?${query}`)).code, query).toBe('invalid_query_parameter')
})

test('the overview returns the sums of all resources', async () => {
  const overview = (await ask(broker, 'GET /overview')).json as Overview
  const { total, current, behind, silent, never } = overview.fleet
  expect(total).toBe(current + behind + silent + never)
  expect(total).toBe((await broker.admin.listAgents({})).length)
  const { healthy, degraded, failing, unknown } = overview.stacks
  expect(overview.stacks.total).toBe(healthy + degraded + failing + unknown)
})
