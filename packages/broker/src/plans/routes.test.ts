// Plans over HTTP, against a real broker; agents are played by their clients.
import type { NewPlanResult } from '@brokkr/contract/plans/plan.ts'
import {
  createAgent,
  createGenerator,
  startTestBroker,
  type TestAgent,
  type TestBroker,
  type TestGenerator,
  unique,
} from '@brokkr/testing/broker.ts'
import { runSql } from '@brokkr/testing/run-sql.ts'
import { readStream } from '@brokkr/testing/stream-reader.ts'
import { beforeAll, expect, test } from 'vitest'
import { ask } from '../http/server/http-call.fixture.ts'
import { digestTargets } from './rules.ts'

let broker: TestBroker
let tenant: TestGenerator
beforeAll(async () => {
  // The agents of these tests send one heartbeat.
  broker = await startTestBroker({ env: { BROKKR__BROKER__AGENT_DISCONNECT_AFTER_SECONDS: '3600' } })
  tenant = await createGenerator(broker)
  return () => broker.kill()
})

const config = (value: string) => `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {v: "${value}"}\n`
const connect = ({ agent, client }: TestAgent, capabilities: string[]) =>
  client.recordHeartbeat({ params: { id: agent.id }, body: { k8s_reachable: true, facts: { capabilities } } })
async function setup(capabilities: (string[] | null)[]) {
  const label = unique('l')
  const stack = await tenant.client.createStack({ body: { name: unique('stack'), generator_id: tenant.generator.id, labels: [label] } })
  const params = { id: stack.id }
  await tenant.client.createDeploymentObject({ params, body: { yaml_content: config('one') } })
  const agents: TestAgent[] = []
  for (const known of capabilities) {
    const agent = await createAgent(broker, { labels: [label], generators: [tenant] })
    if (known !== null) await connect(agent, known)
    agents.push(agent)
  }
  const plan = (value: string) => tenant.client.createPlan({ params, body: { yaml_content: config(value) } })
  return { id: stack.id, params, agents, label, plan }
}
const summary = { create: 0, update: 1, delete: 0, unchanged: 2, denied: 0, unchecked: 0 }
const field = { path: '/data/v', before: 'one', after: 'two', manager: 'brokkr-agent' }
const change = {
  group: '',
  kind: 'ConfigMap',
  namespace: 'default',
  name: 'c',
  change: 'update' as const,
  fields: [field],
  guard: null,
  message: null,
}
const answer: NewPlanResult = { state: 'answered', reason: null, summary, changes: [change] }
const refused = (code: string, status: number) => expect.objectContaining({ code, status })

test('a plan is sent to the agents of its stack, and their results and the silent agents are shown', async () => {
  const { id, params, agents, plan: makePlan } = await setup([['plans'], ['stream'], null])
  const [able, unable, absent] = agents as [TestAgent, TestAgent, TestAgent]
  const stream = await readStream(broker.url, { agentId: able.agent.id, pak: able.pak })
  await stream.frame('snapshot_end')
  const plan = await makePlan('two')
  expect(plan).toMatchObject({ stack_id: id, base_sequence_id: 1, agents_total: 3, is_deletion_marker: false })
  expect(plan.target_digest).toBe(digestTargets(agents.map(({ agent }) => agent.id)))
  await stream.frame('look', ({ what }) => what === 'plans')
  stream.close()
  const pending = (one: TestAgent) => one.client.listPendingPlans({ params: { id: one.agent.id } })
  expect(await pending(able)).toEqual([{ id: plan.id, stack_id: id, yaml_content: config('two'), is_deletion_marker: false }])
  expect([await pending(unable), await pending(absent)]).toEqual([[], []])
  const read = () => tenant.client.getPlan({ params: { id: plan.id } })
  const stateOf = async () => new Map((await read()).results.map(({ agent_id, state, reason }) => [agent_id, [state, reason]]))
  expect(await stateOf()).toEqual(
    new Map([
      [able.agent.id, ['waiting', null]],
      [unable.agent.id, ['silent', 'unsupported']],
      [absent.agent.id, ['silent', 'disconnected']],
    ]),
  )
  await able.client.reportPlanResult({ params: { id: plan.id }, body: answer })
  expect(await pending(able)).toEqual([])
  const { results, ...rest } = await read()
  expect(rest).toEqual(plan)
  expect(results.find(({ agent_id }) => agent_id === able.agent.id)).toMatchObject({
    state: 'answered',
    summary,
    changes: [change],
    has_more: false,
  })
  expect(results.filter(({ summary: counts }) => counts === null)).toHaveLength(2)
  expect((await tenant.client.getPlan({ params: { id: plan.id }, query: { agent_id: able.agent.id } })).results).toHaveLength(1)
  const { logs } = await broker.admin.listAuditLogs({ query: { resource_id: id, action: 'plan.created' } })
  expect(logs).toMatchObject([{ details: { plan_id: plan.id, agents: 3 } }])
  // What was stored is unreadable without the key.
  const rows = await runSql(broker.databaseUrl, `select encode(content_sealed, 'escape') as text from plans where id = '${plan.id}'`)
  expect(JSON.stringify(rows)).not.toContain('ConfigMap')
  // The plan itself changes nothing.
  expect(await tenant.client.getStackStatus({ params })).toMatchObject({ newest_sequence_id: 1 })
})

test('a submission with a plan is accepted only while content, newest object and targets are those of the plan', async () => {
  const { params, label, plan: makePlan } = await setup([['plans']])
  const submit = (plan_id: string, value: string, is_deletion_marker = false) =>
    tenant.client.createDeploymentObject({ params, query: { plan_id }, body: { yaml_content: config(value), is_deletion_marker } })
  const outdated = (...changed: string[]) => expect.objectContaining({ code: 'plan_outdated', status: 409, details: { changed } })
  const first = await makePlan('two')
  await expect(submit(first.id, 'other')).rejects.toEqual(outdated('content'))
  await expect(submit(first.id, 'two', true)).rejects.toEqual(outdated('content'))
  expect((await submit(first.id, 'two')).sequence_id).toBe(2)
  // Applied once, the newest object is another one.
  await expect(submit(first.id, 'two')).rejects.toEqual(outdated('head'))
  const second = await makePlan('three')
  await createAgent(broker, { labels: [label], generators: [tenant] })
  await expect(submit(second.id, 'three')).rejects.toEqual(outdated('targets'))
  const third = await makePlan('four')
  await runSql(broker.databaseUrl, `update plans set expires_at = now() - interval '1 second' where id = '${third.id}'`)
  await expect(submit(third.id, 'four')).rejects.toEqual(outdated('expired'))
  const other = await setup([])
  const foreign = await other.plan('two')
  await expect(submit(foreign.id, 'two')).rejects.toEqual(refused('plan_not_found', 404))
  expect(await tenant.client.getStackStatus({ params })).toMatchObject({ newest_sequence_id: 2 })
})

test('a plan can be made for an earlier object, and for a deletion marker', async () => {
  const { params, agents } = await setup([['plans']])
  const [agent] = agents as [TestAgent]
  await tenant.client.createPlan({ params, body: { sequence_id: 1 } })
  await tenant.client.createPlan({ params, body: { is_deletion_marker: true } })
  const pending = await agent.client.listPendingPlans({ params: { id: agent.agent.id } })
  expect(pending.map(({ yaml_content, is_deletion_marker }) => [yaml_content, is_deletion_marker])).toEqual([
    [config('one'), false],
    ['', true],
  ])
  await expect(tenant.client.createPlan({ params, body: { sequence_id: 7 } })).rejects.toEqual(refused('deployment_object_not_found', 404))
})

test.each([
  ['neither content nor sequence', {}],
  ['both content and sequence', { yaml_content: 'a: 1', sequence_id: 1 }],
  ['YAML that does not parse', { yaml_content: 'a: [' }],
  ['a number as content', { yaml_content: 7 }],
])('a plan with %s is refused as an invalid deployment object', async (_, body) => {
  const { id } = await setup([])
  const response = await ask(broker, `POST /stacks/${id}/plans`, { body })
  expect([response.status, response.code]).toEqual([400, 'invalid_deployment_object'])
})

test('a result is taken only from an agent that the plan addressed and the stack targets, before the plan expires', async () => {
  const { id, agents, plan: makePlan, label } = await setup([['plans']])
  const [agent] = agents as [TestAgent]
  const plan = await makePlan('two')
  const report = (one: TestAgent) => one.client.reportPlanResult({ params: { id: plan.id }, body: answer })
  const late = await createAgent(broker, { labels: [label], generators: [tenant] })
  const stranger = await createAgent(broker, { generators: [tenant] })
  await expect(report(late)).rejects.toEqual(refused('plan_not_targeted', 403))
  await expect(report(stranger)).rejects.toEqual(refused('plan_not_targeted', 403))
  await tenant.client.stacksRemoveLabel({ params: { id, label } })
  expect(await agent.client.listPendingPlans({ params: { id: agent.agent.id } })).toEqual([])
  await expect(report(agent)).rejects.toEqual(refused('plan_not_targeted', 403))
  await tenant.client.stacksAddLabel({ params: { id }, body: label })
  await runSql(broker.databaseUrl, `update plans set expires_at = now() - interval '1 second' where id = '${plan.id}'`)
  await expect(report(agent)).rejects.toEqual(refused('plan_expired', 409))
})

test('an agent that does not answer within a minute is silent, and its later answer still counts', async () => {
  const { agents, plan: makePlan } = await setup([['plans']])
  const [agent] = agents as [TestAgent]
  const plan = await makePlan('two')
  await runSql(broker.databaseUrl, `update plan_results set created_at = now() - interval '61 seconds' where plan_id = '${plan.id}'`)
  const result = async () => (await tenant.client.getPlan({ params: { id: plan.id } })).results[0]
  expect(await result()).toMatchObject({ state: 'silent', reason: 'no_answer', summary: null })
  await agent.client.reportPlanResult({ params: { id: plan.id }, body: { ...answer, state: 'refused', reason: 'no identity' } })
  expect(await result()).toMatchObject({ state: 'refused', reason: 'no identity' })
})

test('the eleventh plan of a caller ends its oldest one, and plans of other callers stay', async () => {
  const { plan: makePlan, id, params } = await setup([])
  const own: string[] = []
  for (let n = 0; n < 10; n += 1) own.push((await makePlan(`v${n}`)).id)
  const eleventh = await makePlan('v10')
  const submit = (plan_id: string, value: string) =>
    tenant.client.createDeploymentObject({ params, query: { plan_id }, body: { yaml_content: config(value) } })
  await expect(submit(own[0]!, 'v0')).rejects.toEqual(expect.objectContaining({ code: 'plan_outdated', details: { changed: ['expired'] } }))
  const { logs } = await broker.admin.listAuditLogs({ query: { resource_id: id, action: 'plan.created' } })
  expect(logs.filter(({ details }) => details?.['replaced_plan_id'] !== undefined)).toMatchObject([
    { details: { plan_id: eleventh.id, replaced_plan_id: own[0] } },
  ])
  // Another caller finds no plan of its own to end.
  const byAdmin = () => broker.admin.createPlan({ params, body: { yaml_content: config('admin') } })
  await expect(byAdmin()).rejects.toEqual(expect.objectContaining({ code: 'limit_exceeded', status: 422, details: { limit: 10 } }))
  await runSql(broker.databaseUrl, `update plans set expires_at = now() - interval '1 hour' where id = '${own[1]}'`)
  expect((await byAdmin()).agents_total).toBe(0)
  // The planned content of every other plan is still accepted.
  expect((await submit(eleventh.id, 'v10')).sequence_id).toBe(2)
})

test.each([
  ['an unknown state', { ...answer, state: 'silent' }],
  ['a negative count', { ...answer, summary: { ...summary, create: -1 } }],
  ['more than 500 changes', { ...answer, changes: Array.from({ length: 501 }, () => change) }],
  ['more than 50 fields', { ...answer, changes: [{ ...change, fields: Array.from({ length: 51 }, () => field) }] }],
  ['a change of another kind', { ...answer, changes: [{ ...change, change: 'explode' }] }],
])('a result with %s is refused', async (_, body) => {
  const { agents, plan: makePlan } = await setup([['plans']])
  const plan = await makePlan('two')
  const response = await ask(broker, `POST /plans/${plan.id}/results`, { pak: agents[0]!.pak, body })
  expect(response.status).toBe(422)
})
