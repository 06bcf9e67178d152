// An agent is the agent of its key and nobody else: whatever it asks for, streams or reports about another agent, or about stacks that
// are not its own, is refused without effect and told to the audit, also inside its own tenant.
// long: waits for the audit of each denial
import { type Endpoint } from '@brokkr/contract/endpoint.ts'
import { type EndpointName, endpoints } from '@brokkr/contract/endpoints.ts'
import { createAgent, startTestBroker, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { type Ask, ask } from '../server/http-call.fixture.ts'
import { tenantCall } from './generator-calls.fixture.ts'
import { makeTenant, quietBroker, rowsOfAll, type Tenant } from './two-generators.fixture.ts'

let broker: TestBroker
let other: Tenant
/** Of the same tenant, with a stack of its own. */
let agent: { id: string; pak: string; stackId: string; objectId: string }
beforeAll(async () => {
  broker = await startTestBroker({ env: quietBroker })
  other = await makeTenant(broker)
  const generator = await broker.admin.getGenerator({ params: { id: other.generatorId } })
  const made = await createAgent(broker, { generators: [{ generator, pak: other.generatorPak, client: other.client }] })
  const stack = await other.client.createStack({ body: { name: unique('s'), generator_id: generator.id } })
  await other.client.addTarget({ params: { id: made.agent.id }, body: { agent_id: made.agent.id, stack_id: stack.id } })
  const object = await other.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: 'a: 1' } })
  agent = { id: made.agent.id, pak: made.pak, stackId: stack.id, objectId: object.id }
  return () => broker.kill()
}, 120_000)

const underAgent = (Object.entries(endpoints) as [EndpointName, Endpoint][]).filter(([, { path }]) =>
  /\/agents\/\{(id|agent_id)\}/.test(path),
)
const as = (call: `${string} /${string}`, options: Omit<Ask, 'pak'> = {}) => ask(broker, call, { ...options, pak: agent.pak })

async function refused(what: () => Promise<{ status: number; code: string | null; text: string }>, code: string): Promise<void> {
  const rows = await rowsOfAll(broker.databaseUrl)
  const answer = await what()
  expect([answer.status, answer.code]).toEqual([403, code])
  for (const foreign of [other.label, other.agentName]) expect(answer.text).not.toContain(foreign)
  expect(await rowsOfAll(broker.databaseUrl)).toEqual(rows)
}

test.each(underAgent)('[X11] %s of another agent is refused without effect', async (name) => {
  const { call, body } = tenantCall(name, other)
  const codes: Partial<Record<EndpointName, string>> = { addTarget: 'target_create_denied', removeTarget: 'target_create_denied' }
  const answer = await as(call, body === undefined ? {} : { body })
  const admins = /admin_required/.test(answer.text) ? 'admin_required' : 'agent_pak_mismatch'
  await refused(() => as(call, body === undefined ? {} : { body }), codes[name] ?? admins)
})

test('[X11] an agent cannot read stacks that do not target it', async () => {
  const path = `/stacks/${other.stackId}`
  await refused(() => as(`GET /deployment-objects/${other.objectId}`), 'agent_not_associated')
  await refused(() => as(`GET /deployment-objects/${other.objectId}`, { headers: { accept: 'application/yaml' } }), 'agent_not_associated')
  await refused(() => as(`GET ${path}/labels` as `GET /${string}`), 'stack_not_accessible')
  await refused(() => as(`GET ${path}/annotations` as `GET /${string}`), 'stack_not_accessible')
  for (const call of [`GET ${path}`, `GET ${path}/status`, `GET ${path}/deployment-objects`] as `GET /${string}`[])
    await refused(() => as(call), 'stack_not_owned')
  expect((await as(`GET /deployment-objects/${agent.objectId}`)).status).toBe(200)
})

const probe = { headers: { 'user-agent': '' } }
const foreign = () => ({ deployment_object_id: other.objectId })
const report = (extra: object) => ({
  agent_id: agent.id,
  deployment_object_id: agent.objectId,
  event_type: 'APPLIED',
  status: 'SUCCESS',
  ...extra,
})

test('[X11] an agent’s reports about other agents’ stacks are rejected', async () => {
  const object = { deployment_object_id: other.objectId }
  const checked_at = new Date().toISOString()
  await refused(() => as(`POST /agents/${agent.id}/events`, { body: report(object) }), 'agent_not_associated')
  await refused(() => as(`POST /agents/${agent.id}/events`, { body: report({ ...object, event_type: 'DELETED' }) }), 'agent_not_associated')
  const health = { deployment_objects: [{ id: other.objectId, status: 'failing', checked_at }] }
  await refused(() => as(`PATCH /agents/${agent.id}/health-status`, { body: health }), 'agent_not_associated')
  const rows = await rowsOfAll(broker.databaseUrl)
  const stacks = [
    { stack_id: other.stackId, rev: 99, object_id: other.objectId, phase: 'removed', observed_at: checked_at },
    { stack_id: agent.stackId, rev: 99, object_id: other.objectId, phase: 'applied', observed_at: checked_at },
  ]
  const status = await as(`POST /agents/${agent.id}/status`, { body: { session: 1, n: 1, stacks } })
  expect([status.status, status.json]).toEqual([200, { accepted: 0, ignored: 2 }])
  const events = [{ id: crypto.randomUUID(), ...report(object) }]
  const batch = await as(`POST /agents/${agent.id}/events/batch`, { body: { events } })
  expect(batch.json).toMatchObject({ results: [{ status: 'refused', code: 'agent_not_associated' }] })
  expect(await rowsOfAll(broker.databaseUrl)).toEqual(rows)
})

test('[X11] an agent cannot report as another agent or reuse its event id', async () => {
  const rows = await rowsOfAll(broker.databaseUrl)
  const named = await as(`POST /agents/${agent.id}/events`, { body: report({ agent_id: other.agentId }) })
  expect([named.status, named.code]).toEqual([400, 'agent_id_mismatch'])
  const taken = await as(`POST /agents/${agent.id}/events`, { body: report({ id: other.eventId, event_type: 'FAILED', status: 'FAILED' }) })
  expect([taken.status, taken.code]).toEqual([409, 'unique_violation'])
  expect(taken.text).not.toContain(other.agentId)
  const removal = await as(`POST /agents/${agent.id}/events`, { body: report({ id: other.eventId, event_type: 'DELETED' }) })
  expect([removal.status, removal.code]).toEqual([409, 'unique_violation'])
  expect(await rowsOfAll(broker.databaseUrl)).toEqual(rows)
})

test('[X11] an agent’s Idempotency-Key does not reveal another agent’s response', async () => {
  const headers = { 'idempotency-key': 'shared' }
  const first = await ask(broker, `POST /agents/${other.agentId}/events`, {
    pak: other.agentPak,
    headers,
    body: { agent_id: other.agentId, deployment_object_id: other.objectId, event_type: 'APPLIED', status: 'SUCCESS' },
  })
  const second = await as(`POST /agents/${agent.id}/events`, { headers, body: report({}) })
  expect([first.status, second.status, second.header('idempotency-replayed')]).toEqual([201, 201, null])
  expect((second.json as { agent_id: string }).agent_id).toBe(agent.id)
})

test.each<[string, () => ReturnType<typeof as>, string]>([
  ['read', () => as(`GET /agents/${other.agentId}`, probe), 'agent_pak_mismatch'],
  ['revision', () => as(`GET /deployment-objects/${other.objectId}`, probe), 'agent_not_associated'],
  ['event', () => as(`POST /agents/${agent.id}/events`, { ...probe, body: report(foreign()) }), 'agent_not_associated'],
  [
    'event in a batch',
    () => as(`POST /agents/${agent.id}/events/batch`, { ...probe, body: { events: [{ id: crypto.randomUUID(), ...report(foreign()) }] } }),
    'agent_not_associated',
  ],
])('[X11] a try at a foreign %s is in the audit under the agent that made it', async (what, attempt, code) => {
  probe.headers['user-agent'] = `probe/${what}`
  await attempt()
  const row = await waitFor('the row', async () => {
    const { logs } = await broker.admin.listAuditLogs({ query: { action: 'auth.denied', actor_id: agent.id } })
    return logs.find((log) => log.user_agent === `probe/${what}`)
  })
  expect(row).toMatchObject({ actor_type: 'agent', actor_id: agent.id, details: { code } })
})
