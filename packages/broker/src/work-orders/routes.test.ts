// Work orders over HTTP, against a real broker.
import { randomUUID } from 'node:crypto'
import type { WorkOrder, WorkOrderLog } from '@brokkr/contract/work-orders/work-order.ts'
import { createAgent, startTestBroker, type TestAgent, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { runSql } from '@brokkr/testing/run-sql.ts'
import { readStream } from '@brokkr/testing/stream-reader.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { ask } from '../http/server/http-call.fixture.ts'

let broker: TestBroker
beforeAll(async () => {
  broker = await startTestBroker({ env: { BROKKR__BROKER__WORK_ORDER_MAINTENANCE_INTERVAL_SECONDS: '1' } })
  return () => broker.kill()
})

const yaml_content = 'kind: Secret\nstringData: {password: hunter2}\n'
const create = (targeting: object, rest: object = {}): Promise<WorkOrder> =>
  broker.admin.createWorkOrder({ body: { work_type: 'custom', yaml_content, targeting, ...rest } })
const pending = async ({ agent, client }: TestAgent): Promise<string[]> =>
  (await client.listPendingForAgent({ params: { agent_id: agent.id } })).map(({ id }) => id)
const claim = ({ agent, client }: TestAgent, id: string): Promise<WorkOrder> =>
  client.claimWorkOrder({ params: { id }, body: { agent_id: agent.id } })
const complete = ({ pak }: { pak: string }, id: string, body: object) => ask(broker, `POST /work-orders/${id}/complete`, { pak, body })
const get = (id: string): Promise<WorkOrder> => broker.admin.getWorkOrder({ params: { id } })
const newAgent = (labels: string[] = []): Promise<TestAgent> => createAgent(broker, { generators: [], labels })
/** Ends the waiting time of a failed order. */
const makeRetryDue = (id: string) => runSql(broker.databaseUrl, 'update work_orders set next_retry_after = now() where id = $1', [id])
const audit = async (id: string): Promise<string[]> =>
  (await runSql<{ action: string }>(broker.databaseUrl, 'select action from audit_logs where resource_id = $1 order by id', [id])).map(
    ({ action }) => action,
  )

test('a work order reaches agents by id, label or annotation, with `all` those that match every criterion', async () => {
  const [label, other, value] = [unique('l'), unique('l'), unique('v')]
  const [one, two] = [await newAgent([label]), await newAgent([label, other])]
  await broker.admin.agentsAddAnnotation({ params: { id: two.agent.id }, body: { agent_id: two.agent.id, key: 'zone', value } })
  const byId = await create({ agent_ids: [one.agent.id] })
  const byLabel = await create({ labels: [label, unique('unknown')] })
  const byAnnotation = await create({ annotations: { zone: value } })
  const byAll = await create({ labels: [label, other], annotations: { zone: value }, match: 'all' })
  const byAllOfOne = await create({ agent_ids: [one.agent.id], labels: [label], match: 'all' })
  expect(await pending(one)).toEqual([byId.id, byLabel.id, byAllOfOne.id])
  expect(await pending(two)).toEqual([byLabel.id, byAnnotation.id, byAll.id])
  await expect(claim(two, byAllOfOne.id)).rejects.toMatchObject({ code: 'work_order_not_claimable' })
  await expect(claim(one, byAll.id)).rejects.toMatchObject({ code: 'work_order_not_claimable' })
  expect(await claim(two, byAll.id)).toMatchObject({ status: 'CLAIMED', claimed_by: two.agent.id, attempt: 1, yaml_content })
  const { record } = await broker.admin.getAgentFleetStatus({ params: { id: two.agent.id } })
  expect(record).toMatchObject({ pending_work_orders: 2, claimed_work_orders: 1 })
})

test('pending orders are paged oldest first', async () => {
  const agent = await newAgent()
  const ids: string[] = []
  for (let n = 0; n < 5; n++) ids.push((await create({ agent_ids: [agent.agent.id] })).id)
  const path = `/agents/${agent.agent.id}/work-orders/pending` as const
  const first = await ask(broker, `GET ${path}?limit=2`, { pak: agent.pak })
  const second = await ask(broker, `GET ${path}?limit=10&cursor=${first.header('x-next-cursor')}`, { pak: agent.pak })
  expect([first, second].flatMap(({ json }) => (json as WorkOrder[]).map(({ id }) => id))).toEqual(ids)
})

test('a failed order waits, is claimed again and ends in the log with its events and audit entries', async () => {
  const agent = await newAgent([unique('deliver')])
  const target_labels = [unique('nobody')]
  const hook = await broker.admin.createWebhook({
    body: { name: unique('hook'), url: 'https://example.com/', event_types: ['workorder.*'], target_labels },
  })
  const { id } = await create({ agent_ids: [agent.agent.id] }, { max_retries: 1, backoff_seconds: 3600 })
  await claim(agent, id)
  expect(await complete(agent, id, { success: false, message: 'no' })).toMatchObject({ status: 202, json: { status: 'retry_scheduled' } })
  expect(await get(id)).toMatchObject({ status: 'RETRY_PENDING', retry_count: 1, last_error: 'no', claimed_by: null })
  await makeRetryDue(id)
  await waitFor('the retry to be due', async () => (await get(id)).status === 'PENDING')
  expect(await claim(agent, id)).toMatchObject({ attempt: 2 })
  expect(await complete(agent, id, { success: true, attempt: 1 })).toMatchObject({ status: 409, code: 'work_order_attempt_stale' })
  const ended = await complete(agent, id, { success: true, message: 'done', attempt: 2 })
  expect(ended).toMatchObject({ status: 200, json: { id, success: true, result_message: 'done', retries_attempted: 1 } })
  expect(await complete(agent, id, { success: true })).toMatchObject({ status: 404, code: 'work_order_not_found' })
  expect(await get(id)).toMatchObject({ status: 'COMPLETED', attempt: 2, yaml_content })
  const log = await broker.admin.listWorkOrderLog({ query: { agent_id: agent.agent.id } })
  expect(log.map((entry) => entry.id)).toEqual([id])
  const deliveries = await broker.admin.listDeliveries({ params: { id: hook.id } })
  const data = deliveries.map(({ payload }) => (JSON.parse(payload) as { data: Record<string, unknown> }).data)
  expect(deliveries.map(({ event_type }) => event_type).toReversed()).toEqual([
    'workorder.created',
    'workorder.claimed',
    'workorder.claimed',
    'workorder.completed',
  ])
  expect(data[0]).toMatchObject({ work_order_log_id: id, success: true, agent_id: agent.agent.id, result_message: 'done' })
  expect(await audit(id)).toEqual(['workorder.created', 'workorder.claimed', 'workorder.retry', 'workorder.claimed', 'workorder.completed'])
})

test('a claim that times out returns to pending, and without retries ends in the log', async () => {
  const agent = await newAgent()
  const [again, last] = [
    await create({ agent_ids: [agent.agent.id] }, { claim_timeout_seconds: 1 }),
    await create({ agent_ids: [agent.agent.id] }, { claim_timeout_seconds: 1, max_retries: 0 }),
  ]
  await Promise.all([claim(agent, again.id), claim(agent, last.id)])
  await waitFor('the claims to end', async () => (await get(again.id)).status === 'PENDING' && (await get(last.id)).status === 'FAILED')
  expect(await get(again.id)).toMatchObject({ retry_count: 1, last_error: 'claim timed out', claimed_by: null, attempt: 1 })
  expect(await get(last.id)).toMatchObject({ last_error: 'claim timed out', claimed_by: agent.agent.id })
  expect(await audit(last.id)).toEqual(['workorder.created', 'workorder.claimed', 'workorder.expired', 'workorder.failed'])
  expect(await complete(agent, again.id, { success: true, attempt: 1 })).toMatchObject({
    status: 403,
    code: 'work_order_not_claimed_by_agent',
  })
})

test('only the holder reports a result or output, and agents claim for themselves', async () => {
  const [holder, other] = [await newAgent(), await newAgent()]
  const { id } = await create({ agent_ids: [holder.agent.id, other.agent.id] })
  const foreign = await ask(broker, `POST /work-orders/${id}/claim`, { pak: other.pak, body: { agent_id: holder.agent.id } })
  expect(foreign).toMatchObject({ status: 403, code: 'agent_pak_mismatch' })
  await claim(holder, id)
  expect((await complete(other, id, { success: true })).code).toBe('work_order_not_claimed_by_agent')
  const piece = { attempt: 1, offset: 0, text: 'x' }
  expect((await ask(broker, `POST /work-orders/${id}/output`, { pak: other.pak, body: piece })).code).toBe(
    'work_order_not_claimed_by_agent',
  )
  const admin = await complete({ pak: broker.adminPak }, id, { success: false, retryable: false })
  expect(admin).toMatchObject({ status: 200, json: { claimed_by: holder.agent.id, result_message: 'Unknown error' } })
})

test('output is appended once, stays readable after the end and belongs to the latest attempt', async () => {
  const agent = await newAgent()
  const { id } = await create({ agent_ids: [agent.agent.id] })
  await claim(agent, id)
  const append = (body: object) => ask(broker, `POST /work-orders/${id}/output`, { pak: agent.pak, body })
  expect((await append({ attempt: 1, offset: 0, text: 'one ' })).status).toBe(204)
  expect((await append({ attempt: 1, offset: 0, text: 'one ' })).status).toBe(204)
  expect((await append({ attempt: 1, offset: 4, text: 'two' })).status).toBe(204)
  expect((await append({ attempt: 2, offset: 0, text: 'x' })).code).toBe('work_order_attempt_stale')
  expect((await append({ attempt: 1, offset: 7, text: 'ü'.repeat(40_000) })).code).toBe('validation_failed')
  expect((await append({ attempt: 1, offset: Number.MAX_SAFE_INTEGER, text: 'x' })).status).toBe(422)
  expect(await broker.admin.getWorkOrderOutput({ params: { id } })).toEqual({ text: 'one two', offset: 0, finished: false })
  await complete(agent, id, { success: true })
  expect(await broker.admin.getWorkOrderOutput({ params: { id } })).toEqual({ text: 'one two', offset: 0, finished: true })
  const sealed = await runSql<{ hits: number }>(
    broker.databaseUrl,
    `select count(*)::int as hits from work_order_contents where id = $1 and (position('two'::bytea in output_sealed) > 0 or position('hunter2'::bytea in yaml_sealed) > 0)`,
    [id],
  )
  expect(sealed).toEqual([{ hits: 0 }])
})

test('a failed order is created again with content and targeting, a successful one is not', async () => {
  const agent = await newAgent()
  const { id } = await create({ agent_ids: [agent.agent.id] }, { max_retries: 0, claim_timeout_seconds: 77 })
  await claim(agent, id)
  await complete(agent, id, { success: false })
  const again = await ask(broker, `POST /work-order-log/${id}/retry`)
  expect(again).toMatchObject({ status: 201, json: { status: 'PENDING', yaml_content, claim_timeout_seconds: 77, attempt: 0 } })
  const retried = (again.json as WorkOrder).id
  expect(await pending(agent)).toEqual([retried])
  await claim(agent, retried)
  await complete(agent, retried, { success: true })
  expect((await ask(broker, `POST /work-order-log/${retried}/retry`)).code).toBe('work_order_succeeded')
  expect((await ask(broker, `POST /work-order-log/${randomUUID()}/retry`)).code).toBe('work_order_log_entry_not_found')
})

test('a canceled order is gone, and its holder learns it from its report', async () => {
  const agent = await newAgent()
  const { id } = await create({ agent_ids: [agent.agent.id] })
  await claim(agent, id)
  expect((await ask(broker, `DELETE /work-orders/${id}`)).status).toBe(204)
  expect((await ask(broker, `DELETE /work-orders/${id}`)).code).toBe('work_order_not_found')
  expect((await complete(agent, id, { success: true })).code).toBe('work_order_not_found')
  expect(await runSql(broker.databaseUrl, 'select id from work_order_contents where id = $1', [id])).toEqual([])
  expect(await audit(id)).toContain('workorder.deleted')
})

test('orders that a deleted agent holds become pending again', async () => {
  const label = unique('l')
  const [holder, other] = [await newAgent([label]), await newAgent([label])]
  const { id } = await create({ labels: [label] })
  await claim(holder, id)
  await broker.admin.deleteAgent({ params: { id: holder.agent.id } })
  expect(await get(id)).toMatchObject({ status: 'PENDING', retry_count: 0, claimed_by: null })
  expect(await claim(other, id)).toMatchObject({ attempt: 2 })
})

test('agents are woken by a new order and by one that becomes pending again', async () => {
  const label = unique('l')
  const [holder, waiting] = [await newAgent([label]), await newAgent([label])]
  const waitForHint = async (what: string, change: () => Promise<unknown>) => {
    const stream = await readStream(broker.url, { agentId: waiting.agent.id, pak: waiting.pak })
    try {
      await stream.frame('snapshot_end')
      await change()
      await waitFor(what, () => stream.frames.some((frame) => frame.type === 'look' && frame.what === 'work_orders'))
    } finally {
      stream.close()
    }
  }
  let id = ''
  await waitForHint('the hint of the new order', async () => ({ id } = await create({ labels: [label] }, { backoff_seconds: 3600 })))
  await claim(holder, id)
  await complete(holder, id, { success: false })
  // A stream gets no hint of changes that were published before it began, so this one is that of the retry.
  await waitForHint('the hint of the retry', () => makeRetryDue(id))
})

test('a read-only admin sees Secrets of an order masked', async () => {
  const agent = await newAgent()
  const manifest = 'apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: hunter2}\n'
  const { id } = await create({ agent_ids: [agent.agent.id] }, { yaml_content: manifest })
  const reader = await broker.admin.createAdminPak({ body: { name: unique('reader'), readonly: true } })
  const { text, status } = await ask(broker, `GET /work-orders/${id}`, { pak: reader.pak })
  expect([status, text.includes('hunter2')]).toEqual([200, false])
})

test.each([
  ['an empty work type', { work_type: '' }, 400, 'invalid_work_order'],
  ['a long work type', { work_type: 'w'.repeat(51) }, 400, 'invalid_work_order'],
  ['an empty text', { yaml_content: '' }, 400, 'invalid_work_order'],
  ['too many retries', { max_retries: 101 }, 400, 'invalid_work_order'],
  ['a negative number of retries', { max_retries: -1 }, 400, 'invalid_work_order'],
  ['a number beyond 32 bits', { max_retries: 2 ** 40 }, 400, 'invalid_work_order'],
  ['no backoff', { backoff_seconds: 0 }, 400, 'invalid_work_order'],
  ['a long claim', { claim_timeout_seconds: 604_801 }, 400, 'invalid_work_order'],
  ['a label with a space', { targeting: { labels: ['a b'] } }, 400, 'invalid_work_order'],
  ['an annotation without a value', { targeting: { annotations: { k: '' } } }, 400, 'invalid_work_order'],
  ['too many targets', { targeting: { labels: Array.from({ length: 1001 }, (_, n) => `l${n}`) } }, 400, 'invalid_work_order'],
  ['no targeting', { targeting: {} }, 400, 'no_targeting_specified'],
  ['an unknown agent', { targeting: { agent_ids: [randomUUID()] } }, 422, 'foreign_key_violation'],
  ['another match', { targeting: { labels: ['l'], match: 'some' } }, 422, 'invalid_request_body'],
  ['a NUL character', { work_type: 'a\0b' }, 422, 'validation_failed'],
])('an order with %s is rejected', async (_, change, status, code) => {
  const body = { work_type: 'custom', yaml_content: 'a: 1', targeting: { labels: ['l'] }, ...change }
  expect(await ask(broker, 'POST /work-orders', { body })).toMatchObject({ status, code })
})

test('the log is filtered by type, result and agent, newest first', async () => {
  const agent = await newAgent()
  const work_type = unique('t')
  const ids: string[] = []
  for (const success of [true, false, true]) {
    const { id } = await create({ agent_ids: [agent.agent.id] }, { work_type, max_retries: 0 })
    await claim(agent, id)
    await complete(agent, id, { success })
    ids.unshift(id)
  }
  const list = async (query: string) => ((await ask(broker, `GET /work-order-log?${query}`)).json as WorkOrderLog[]).map(({ id }) => id)
  expect(await list(`work_type=${work_type}`)).toEqual(ids)
  expect(await list(`agent_id=${agent.agent.id}&success=false`)).toEqual([ids[1]])
  const first = await ask(broker, `GET /work-order-log?work_type=${work_type}&limit=2`)
  expect(await list(`work_type=${work_type}&limit=2&cursor=${first.header('x-next-cursor')}`)).toEqual([ids[2]])
})
