// Flows over HTTP, against a real broker.
import type { Flow, FlowOrder } from '@brokkr/contract/flows/flow.ts'
import { createAgent, createGenerator, startTestBroker, type TestAgent, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { runSql } from '@brokkr/testing/run-sql.ts'
import { beforeAll, expect, test } from 'vitest'
import { ask } from '../http/server/http-call.fixture.ts'

let broker: TestBroker
beforeAll(async () => {
  broker = await startTestBroker()
  return () => broker.kill()
})

async function setup(names: readonly string[] = ['orders']) {
  const tenant = await createGenerator(broker)
  const label = unique('l')
  const agent = await createAgent(broker, { generators: [tenant], labels: [label] })
  await agent.client.recordHeartbeat({ params: { id: agent.agent.id } })
  const stack = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id, labels: [label] } })
  const object = await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: 'a: 1' } })
  const told = { agent, objectId: object.id }
  await report(
    told,
    1,
    names.map((name) => entry(name)),
  )
  const list = async (query = '', pak = tenant.pak) =>
    (await ask(broker, `GET /flows?stack_id=${stack.id}${query}`, { pak })).json as Flow[]
  return { tenant, agent, stack, object, told, list }
}
const entry = (name: string, more: object = {}) => ({
  kind: 'DataFlow',
  name,
  namespace: 'shop',
  ready: true,
  flow: { phase: 'Running', processed: 5, lag: { seconds: 2 } },
  ...more,
})
/** `at`: seconds of the check. */
async function report(
  { agent, objectId }: { agent: TestAgent; objectId: string },
  at: number,
  resources: readonly object[] | null,
  more: object = {},
) {
  const checked_at = new Date(Date.UTC(2026, 0, 2, 3, 4, at)).toISOString()
  const summary = { pods_ready: 0, pods_total: 0, conditions: [], resources, ...more }
  const answer = await ask(broker, `PATCH /agents/${agent.agent.id}/health-status`, {
    pak: agent.pak,
    body: { deployment_objects: [{ id: objectId, status: 'healthy', checked_at, summary }] },
  })
  expect([answer.status, answer.text]).toEqual([200, ''])
}

test('a reported flow is listed with its stack, cluster and figures', async () => {
  const { agent, stack, object, list, tenant } = await setup()
  const [flow] = await list()
  expect(flow).toMatchObject({
    kind: 'DataFlow',
    namespace: 'shop',
    name: 'orders',
    agent_id: agent.agent.id,
    agent_name: agent.agent.name,
    stack_id: stack.id,
    stack_name: stack.name,
    generator_id: tenant.generator.id,
    deployment_object_id: object.id,
    state: 'running',
    ready: true,
    message: null,
    stale: false,
    report: { phase: 'Running', processed: 5, lag: { seconds: 2 } },
    reported_at: '2026-01-02T03:04:01.000000Z',
  })
  expect((await ask(broker, `GET /flows/${flow!.id}`, { pak: tenant.pak })).json).toEqual({ ...flow, orders: [] })
})

test('pages follow the name and end; filters and cursors fit together', async () => {
  const { list, stack, agent } = await setup(['c', 'a', 'e', 'b', 'd'])
  const seen: string[] = []
  let next: string | null = `/flows?stack_id=${stack.id}&limit=2`
  for (let pages = 0; next !== null && pages < 10; pages++) {
    const answer = await ask(broker, `GET ${next}` as `GET /${string}`)
    seen.push(...(answer.json as Flow[]).map(({ name }) => name))
    const cursor = answer.header('x-next-cursor')
    next = cursor === null ? null : `/flows?stack_id=${stack.id}&limit=2&cursor=${cursor}`
  }
  expect(seen).toEqual(['a', 'b', 'c', 'd', 'e'])
  const named = async (query: string) => (await list(query)).map(({ name }) => name)
  expect(await named('&name=c')).toEqual(['c'])
  expect(await named('&search=D')).toEqual(['d'])
  expect(await named(`&agent_id=${agent.agent.id}&state=running&limit=1`)).toEqual(['a'])
  expect(await named('&state=error')).toEqual([])
  expect(await named('&stale=true')).toEqual([])
  for (const query of ['state=fine', 'agent_id=no', 'stale=maybe', 'limit=0', 'cursor=x'])
    expect((await ask(broker, `GET /flows?${query}`)).status, query).toBe(400)
})

test('an older report changes nothing, a newer one changes and removes flows', async () => {
  const { told, list } = await setup(['a', 'b'])
  const [{ id } = { id: '' }] = await list()
  await report(told, 3, [entry('a', { ready: false, message: 'Blocked: x', flow: { phase: 'Error', blocked: { stage: 'sink' } } })])
  await report(told, 2, [entry('a'), entry('b')])
  expect((await list()).map((flow) => [flow.id, flow.name, flow.state, flow.message])).toEqual([[id, 'a', 'blocked', 'Blocked: x']])
  // Without a list of resources the report says nothing about flows.
  await report(told, 4, null)
  expect(await list()).toHaveLength(1)
})

test('a flow that could not be read keeps its last figures, and a full list removes nothing', async () => {
  const { told, list } = await setup(['a', 'b'])
  const { flow: _flow, ...unread } = entry('a', { ready: false, message: 'Forbidden: it cannot be read' })
  const others = Array.from({ length: 99 }, (_, n) => ({ kind: 'ConfigMap', name: `m${n}`, namespace: 'shop', ready: true }))
  await report(told, 2, [unread, ...others])
  expect((await list()).map((flow) => [flow.name, flow.state, flow.reported_at, flow.checked_at])).toEqual([
    ['a', 'running', '2026-01-02T03:04:01.000000Z', '2026-01-02T03:04:02.000000Z'],
    ['b', 'running', '2026-01-02T03:04:01.000000Z', '2026-01-02T03:04:01.000000Z'],
  ])
})

test('a list that the agent cut removes nothing, and a name that no object can have is left out', async () => {
  const { told, list } = await setup(['a', 'b'])
  const names = async () => (await list()).map(({ name }) => name)
  await report(told, 2, [entry('a')], { truncated: true })
  expect(await names()).toEqual(['a', 'b'])
  // Random text, because an index compresses repetitions.
  const long = Array.from({ length: 300 }, () => crypto.randomUUID()).join('')
  await report(told, 3, [entry('a'), entry(long), entry('c', { namespace: long })])
  expect(await names()).toEqual(['a'])
})

test('figures are stale if the processor, the report or the agent is silent', async () => {
  const { told, agent, list } = await setup(['a', 'b'])
  await report(told, 2, [entry('a', { flow: { phase: 'Running', stale: true } }), entry('b')])
  const stale = async () => (await list()).filter((flow) => flow.stale).map(({ name }) => name)
  expect(await stale()).toEqual(['a'])
  await runSql(broker.databaseUrl, `update flows set received_at = now() - interval '11 minutes' where agent_id = $1 and name = 'b'`, [
    agent.agent.id,
  ])
  expect(await stale()).toEqual(['a', 'b'])
  expect((await list('&stale=true')).map(({ name }) => name)).toEqual(['a', 'b'])
  await report(told, 3, [entry('a'), entry('b')])
  expect(await stale()).toEqual([])
  await runSql(broker.databaseUrl, `update agents set connection_state = 'disconnected' where id = $1`, [agent.agent.id])
  expect(await stale()).toEqual(['a', 'b'])
})

test('generators see their own flows; flows of a deleted agent or stack are gone', async () => {
  const [own, foreign] = [await setup(), await setup()]
  const names = async (pak: string) => ((await ask(broker, 'GET /flows', { pak })).json as Flow[]).map(({ stack_id }) => stack_id)
  expect(await names(own.tenant.pak)).toEqual([own.stack.id])
  expect(await names(broker.adminPak)).toEqual(expect.arrayContaining([own.stack.id, foreign.stack.id]))
  const [flow] = await foreign.list('', broker.adminPak)
  expect((await ask(broker, `GET /flows/${flow!.id}`, { pak: own.tenant.pak })).code).toBe('stack_not_owned')
  const steered = await ask(broker, `POST /flows/${flow!.id}/orders`, { pak: own.tenant.pak, body: { action: 'pause' } })
  expect(steered.code).toBe('stack_not_owned')
  await broker.admin.deleteAgent({ params: { id: foreign.agent.agent.id } })
  await own.tenant.client.deleteStack({ params: { id: own.stack.id } })
  const all = await names(broker.adminPak)
  expect(all).not.toContain(own.stack.id)
  expect(all).not.toContain(foreign.stack.id)
  expect((await ask(broker, `GET /flows/${flow!.id}`)).code).toBe('flow_not_found')
})

test('an order is one work order for the agent of the flow, with its audit entry, once per key', async () => {
  const { tenant, agent, stack, list } = await setup()
  const [flow] = await list()
  const send = () =>
    ask(broker, `POST /flows/${flow!.id}/orders`, {
      pak: tenant.pak,
      body: { action: 'rewind', to: { offsets: { 0: 12 } } },
      headers: { 'idempotency-key': `${stack.id}-rewind` },
    })
  const [first, again] = [await send(), await send()]
  expect([first.status, again.status, again.json]).toEqual([201, 201, first.json])
  const { id } = first.json as FlowOrder
  expect(first.json).toMatchObject({ flow_id: flow!.id, action: 'rewind', status: 'PENDING', message: null, finished_at: null })
  const pending = await agent.client.listPendingForAgent({ params: { agent_id: agent.agent.id } })
  expect(pending.map((order) => [order.id, order.work_type])).toEqual([[id, 'flow']])
  expect(JSON.parse(pending[0]!.yaml_content)).toEqual({
    flow: { kind: 'DataFlow', namespace: 'shop', name: 'orders', stack_id: stack.id },
    order: { action: 'rewind', to: { offsets: { 0: 12 } } },
  })
  const audit = await runSql(broker.databaseUrl, `select details from audit_logs where action = 'workorder.created' and resource_id = $1`, [
    id,
  ])
  expect(audit).toMatchObject([
    { details: { work_type: 'flow', flow_id: flow!.id, action: 'rewind', to: '{"offsets":{"0":12}}', name: 'orders' } },
  ])
  const claim = await agent.client.claimWorkOrder({ params: { id }, body: { agent_id: agent.agent.id } })
  await agent.client.completeWorkOrder({
    params: { id },
    // Not tried again, although it could be: it would run after newer orders.
    body: { success: false, message: 'unavailable', retryable: true, attempt: claim.attempt },
  })
  const { orders } = await tenant.client.getFlow({ params: { id: flow!.id } })
  expect(orders).toMatchObject([{ id, status: 'FAILED', message: 'unavailable' }])
  expect(orders[0]?.finished_at).not.toBeNull()
})

test('an invalid order is refused with the reason, and too many open orders are refused', async () => {
  const { told, tenant, list } = await setup()
  await report(told, 2, [entry('nightly', { kind: 'DataFlowCron' })])
  const [cron] = await list()
  const send = (body: unknown) => ask(broker, `POST /flows/${cron!.id}/orders`, { pak: tenant.pak, body })
  const cases: [unknown, number, string][] = [
    [{ action: 'rewind', to: 'earliest' }, 422, 'invalid_flow_order'],
    [{ action: 'skip', position: 'x' }, 422, 'invalid_flow_order'],
    [{ action: 'explode' }, 422, 'invalid_request_body'],
    [{ action: 'rewind', to: 'yesterday' }, 422, 'invalid_request_body'],
    [{ action: 'skip' }, 422, 'invalid_request_body'],
    [{}, 422, 'invalid_request_body'],
    [[], 422, 'invalid_request_body'],
  ]
  for (const [body, status, code] of cases) {
    const answer = await send(body)
    expect([JSON.stringify(body), answer.status, answer.code]).toEqual([JSON.stringify(body), status, code])
  }
  // Sent at once: the bound also holds among concurrent calls.
  const answers = await Promise.all(Array.from({ length: 24 }, () => send({ action: 'run' })))
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(20)
  expect(answers.filter(({ code }) => code === 'limit_exceeded')).toHaveLength(4)
})
