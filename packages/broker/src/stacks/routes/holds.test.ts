// Holds and rollback with hold over HTTP, against a real broker.
import { createAgent, createGenerator, startTestBroker, type TestBroker, type TestGenerator, unique } from '@brokkr/testing/broker.ts'
import { readStream, readWatch } from '@brokkr/testing/stream-reader.ts'
import { beforeAll, expect, test } from 'vitest'
import { ask } from '../../http/server/http-call.fixture.ts'

let broker: TestBroker
let tenant: TestGenerator
beforeAll(async () => {
  broker = await startTestBroker()
  tenant = await createGenerator(broker)
  return () => broker.kill()
})

const makeStack = (labels: string[] = []) =>
  tenant.client.createStack({ body: { name: unique('stack'), generator_id: tenant.generator.id, labels } })
const config = (value: string) => `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {v: "${value}"}\n`
async function submittedStack(values: readonly string[], labels: string[] = []) {
  const stack = await makeStack(labels)
  const params = { id: stack.id }
  const submit = (value: string, is_deletion_marker = false) =>
    tenant.client.createDeploymentObject({ params, body: { yaml_content: config(value), is_deletion_marker } })
  for (const value of values) await submit(value)
  return { id: stack.id, params, submit }
}
const audited = async (id: string) =>
  (await broker.admin.listAuditLogs({ query: { resource_id: id, action: 'stack.*' } })).logs.map(({ action }) => action).toReversed()

test('a submission waits behind a hold until the release, and every view says so', async () => {
  const { params, id, submit } = await submittedStack(['one'])
  const hold = await tenant.client.holdStack({ params, body: { reason: 'audit week' } })
  expect(hold).toMatchObject({
    stack_id: id,
    sequence_id: 1,
    reason: 'audit week',
    by: { kind: 'generator', id: tenant.generator.id, name: tenant.generator.name },
    waiting: [],
  })
  expect([(await submit('two')).sequence_id, (await submit('three')).sequence_id]).toEqual([2, 3])
  expect(await tenant.client.getHold({ params })).toEqual({ ...hold, waiting: [3, 2] })
  expect(await tenant.client.getStackStatus({ params })).toMatchObject({
    desired_sequence_id: 1,
    held_sequence_id: 1,
    newest_sequence_id: 3,
  })
  const listed = async () => (await tenant.client.listStacks({ query: { include: 'status' } })).find((stack) => stack.id === id)?.status
  expect(await listed()).toMatchObject({ desired_sequence_id: 1, held: true })
  expect((await broker.admin.listStacks({ query: { include: 'status', held: true } })).map((stack) => stack.id)).toContain(id)
  await tenant.client.releaseStack({ params, query: { reason: 'over' } })
  expect(await tenant.client.getStackStatus({ params })).toMatchObject({
    desired_sequence_id: 3,
    held_sequence_id: null,
    newest_sequence_id: 3,
  })
  expect(await listed()).toMatchObject({ desired_sequence_id: 3, held: false })
  await expect(tenant.client.getHold({ params })).rejects.toMatchObject({ code: 'hold_not_found', status: 404 })
  await expect(tenant.client.releaseStack({ params })).rejects.toMatchObject({ code: 'hold_not_found' })
  expect(await audited(id)).toEqual(['stack.created', 'stack.held', 'stack.released'])
})

test('a hold moves forward and never back, and repeating it changes nothing', async () => {
  const { params, id, submit } = await submittedStack(['one', 'two'])
  const hold = (sequence_id?: number, reason = 'r') =>
    tenant.client.holdStack({ params, body: { reason, ...(sequence_id === undefined ? {} : { sequence_id }) } })
  await expect(hold(1)).rejects.toMatchObject({ code: 'hold_sequence_invalid', status: 422, message: expect.stringContaining('roll back') })
  await expect(hold(9)).rejects.toMatchObject({ code: 'hold_sequence_invalid' })
  const first = await hold()
  expect(first.sequence_id).toBe(2)
  expect(await hold()).toEqual(first)
  await submit('three')
  // Without a number the hold keeps its object; only the reason changes.
  expect(await hold(undefined, 'new reason')).toMatchObject({ sequence_id: 2, reason: 'new reason', waiting: [3] })
  expect(await hold(3)).toMatchObject({ sequence_id: 3, waiting: [] })
  await expect(hold(2)).rejects.toMatchObject({ code: 'hold_sequence_invalid' })
  expect(await audited(id)).toEqual(['stack.created', 'stack.held', 'stack.held', 'stack.held'])
  const empty = await makeStack()
  await expect(tenant.client.holdStack({ params: { id: empty.id }, body: { reason: 'r' } })).rejects.toMatchObject({
    code: 'hold_sequence_invalid',
    message: expect.stringContaining('no deployment object'),
  })
})

test.each([
  ['no reason', {}, 'invalid_request_body'],
  ['an empty reason', { reason: '' }, 'validation_failed'],
  ['a reason of 1,001 characters', { reason: 'x'.repeat(1001) }, 'validation_failed'],
  ['a NUL in the reason', { reason: 'a\u0000b' }, 'validation_failed'],
  ['the sequence 0', { reason: 'r', sequence_id: 0 }, 'validation_failed'],
  ['a broken number', { reason: 'r', sequence_id: 1.5 }, 'invalid_request_body'],
  ['a sequence in quotes', { reason: 'r', sequence_id: '1' }, 'invalid_request_body'],
  ['a number as reason', { reason: 7 }, 'invalid_request_body'],
])('a hold with %s is refused and sets nothing', async (_, body, code) => {
  const { id } = await submittedStack(['one'])
  const answer = await ask(broker, `PUT /stacks/${id}/hold`, { body })
  expect([answer.status, answer.code]).toEqual([422, code])
  expect((await ask(broker, `GET /stacks/${id}/hold`)).status).toBe(404)
})

test('a hold that an admin set is changed and released by admins only', async () => {
  const { params, submit } = await submittedStack(['one'])
  // The admin takes over the hold of the generator by repeating it.
  await tenant.client.holdStack({ params, body: { reason: 'incident' } })
  await broker.admin.holdStack({ params, body: { reason: 'incident' } })
  await submit('two')
  await expect(tenant.client.holdStack({ params, body: { reason: 'mine' } })).rejects.toMatchObject({ code: 'hold_not_owned', status: 403 })
  await expect(tenant.client.releaseStack({ params })).rejects.toMatchObject({ code: 'hold_not_owned' })
  await expect(tenant.client.rollbackStack({ params, body: { sequence_id: 1, hold: true } })).rejects.toMatchObject({
    code: 'hold_not_owned',
  })
  await expect(tenant.client.deleteStack({ params })).rejects.toMatchObject({ code: 'hold_not_owned', status: 403 })
  expect(await tenant.client.getHold({ params })).toMatchObject({ reason: 'incident', waiting: [2], by: { kind: 'admin' } })
  await broker.admin.releaseStack({ params })
  await tenant.client.deleteStack({ params })
})

test('an admin who repeats the hold of a generator owns it', async () => {
  const { params, id } = await submittedStack(['one'])
  const body = { reason: 'incident' }
  await tenant.client.holdStack({ params, body })
  expect(await broker.admin.holdStack({ params, body })).toMatchObject({ by: { kind: 'admin' } })
  await expect(tenant.client.releaseStack({ params })).rejects.toMatchObject({ code: 'hold_not_owned' })
  expect(await audited(id)).toEqual(['stack.created', 'stack.held', 'stack.held'])
})

test('a rollback with hold pins the new object, and without hold a held stack refuses it', async () => {
  const { params, id, submit } = await submittedStack(['one', 'two'])
  const made = await tenant.client.rollbackStack({ params, body: { sequence_id: 1, hold: true, reason: '5xx' } })
  expect(made).toMatchObject({ sequence_id: 3, yaml_content: config('one') })
  expect(await tenant.client.getHold({ params })).toMatchObject({ sequence_id: 3, reason: '5xx', waiting: [] })
  await submit('bad again')
  expect(await tenant.client.getStackStatus({ params })).toMatchObject({ desired_sequence_id: 3, newest_sequence_id: 4 })
  const without = tenant.client.rollbackStack({ params, body: { sequence_id: 2 } })
  await expect(without).rejects.toMatchObject({ code: 'stack_held', status: 409, details: { sequence_id: 3 } })
  // The expected number is that of the newest object, not of the held one.
  const moved = tenant.client.rollbackStack({ params, body: { sequence_id: 2, hold: true, expected_sequence_id: 3 } })
  await expect(moved).rejects.toMatchObject({ code: 'stack_moved', details: { sequence_id: 4 } })
  const again = await tenant.client.rollbackStack({ params, body: { sequence_id: 2, hold: true, expected_sequence_id: 4 } })
  expect(await tenant.client.getHold({ params })).toMatchObject({ sequence_id: again.sequence_id, reason: 'rollback to sequence 2' })
  expect(await audited(id)).toEqual(['stack.created', 'stack.held', 'stack.held'])
})

test('a rollback with hold needs the verbs deploy and operate', async () => {
  const { params } = await submittedStack(['one', 'two'])
  const scoped = async (scope: string[]) =>
    broker.clientOf((await broker.admin.createAdminPak({ body: { name: unique('p'), scope: scope as never } })).pak)
  const deployer = await scoped(['read', 'deploy'])
  await expect(deployer.rollbackStack({ params, body: { sequence_id: 1, hold: true } })).rejects.toMatchObject({
    code: 'scope_denied',
    details: { verb: 'operate' },
  })
  await expect(deployer.holdStack({ params, body: { reason: 'r' } })).rejects.toMatchObject({ code: 'scope_denied' })
  expect((await deployer.rollbackStack({ params, body: { sequence_id: 1, hold: false } })).sequence_id).toBe(3)
  const both = await scoped(['deploy', 'operate'])
  expect((await both.rollbackStack({ params, body: { sequence_id: 1, hold: true } })).sequence_id).toBe(4)
})

test('a deletion marker waits behind a hold, and deleting the stack removes the hold', async () => {
  const label = unique('l')
  const { params, id, submit } = await submittedStack(['one'], [label])
  const agent = await createAgent(broker, { labels: [label], generators: [tenant] })
  const stream = await readStream(broker.url, { agentId: agent.agent.id, pak: agent.pak })
  await stream.frame('snapshot_end')
  await tenant.client.holdStack({ params, body: { reason: 'r' } })
  await submit('', true)
  // The number rises, the object stays.
  expect(await stream.frame('put', ({ rev }) => rev === 2)).toMatchObject({ object: { sequence_id: 1, is_deletion_marker: false } })
  await tenant.client.deleteStack({ params })
  expect(await stream.frame('del', ({ stack_id }) => stack_id === id)).toMatchObject({ reason: 'stack_deleted' })
  expect(stream.frames.filter((frame) => frame.type === 'put' && frame.object?.is_deletion_marker === true)).toEqual([])
  stream.close()
  expect(await broker.admin.getOverview({})).toMatchObject({ holds: expect.any(Number) })
})

test('webhooks and watches report a hold and its release', async () => {
  const { params, id, submit } = await submittedStack(['one'])
  const watch = await readWatch(broker.url, { pak: tenant.pak, scopes: [`stack:${id}`] })
  await watch.frame('hello')
  const hook = await broker.admin.createWebhook({
    body: { name: unique('w'), url: 'https://example.com/', event_types: ['stack.held', 'stack.released'], filters: { stack_id: id } },
  })
  expect(hook.unknown_event_types).toEqual([])
  await tenant.client.holdStack({ params, body: { reason: 'r' } })
  expect(await watch.frame('change', ({ scope }) => scope === `stack_status:${id}`)).toMatchObject({ kind: 'stack' })
  await submit('two')
  await tenant.client.releaseStack({ params, query: { reason: 'done' } })
  await watch.frame('change', ({ scope, kind }) => scope === `stack:${id}` && kind === 'stack')
  watch.close()
  const deliveries = (await broker.admin.listDeliveries({ params: { id: hook.id } })).toReversed()
  const by = { kind: 'generator', id: tenant.generator.id }
  expect(deliveries.map(({ payload }) => JSON.parse(payload) as unknown)).toMatchObject([
    { event_type: 'stack.held', data: { stack_id: id, sequence_id: 1, reason: 'r', by } },
    { event_type: 'stack.released', data: { stack_id: id, sequence_id: 1, reason: 'done', by } },
  ])
})
