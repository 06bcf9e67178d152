// Undelete over HTTP, against a real broker.
import { createAgent, createGenerator, startTestBroker, type TestBroker, type TestGenerator, unique } from '@brokkr/testing/broker.ts'
import { runSql } from '@brokkr/testing/run-sql.ts'
import { readStream } from '@brokkr/testing/stream-reader.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import pg from 'pg'
import { beforeAll, expect, test } from 'vitest'

let broker: TestBroker
let tenant: TestGenerator
beforeAll(async () => {
  broker = await startTestBroker()
  tenant = await createGenerator(broker)
  return () => broker.kill()
})

const config = (value: string) => `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {v: "${value}"}\n`
async function makeStack(labels: string[] = [], owner: TestGenerator = tenant) {
  const stack = await owner.client.createStack({ body: { name: unique('stack'), generator_id: owner.generator.id, labels } })
  const params = { id: stack.id }
  const submit = (value: string, is_deletion_marker = false) =>
    owner.client.createDeploymentObject({ params, body: { yaml_content: config(value), is_deletion_marker } })
  return { ...stack, params, submit }
}
const explain = async (agentId: string) =>
  (await broker.admin.listTargets({ params: { id: agentId }, query: { reason: 'all' } })).map(({ stack_id, reasons }) => ({
    stack_id,
    reasons,
  }))

test('[S54] an undeleted stack has its text, labels and live explicit targets again, and agents get it as a put', async () => {
  const label = unique('l')
  const { id, params, name, submit } = await makeStack([label])
  await submit('one')
  await submit('two')
  const agents = [await createAgent(broker, { labels: [label], generators: [tenant] })]
  for (let n = 0; n < 3; n += 1) agents.push(await createAgent(broker, { generators: [tenant] }))
  const [labelled, explicit, deregistered, deleted] = agents as [
    (typeof agents)[0],
    (typeof agents)[0],
    (typeof agents)[0],
    (typeof agents)[0],
  ]
  for (const { agent } of [explicit, deregistered, deleted])
    await tenant.client.addTarget({ params: { id: agent.id }, body: { agent_id: agent.id, stack_id: id } })
  // Behind the hold waits an object that no agent had: it does not return.
  await tenant.client.holdStack({ params, body: { reason: 'r' } })
  await submit('never wanted')
  const stream = await readStream(broker.url, { agentId: explicit.agent.id, pak: explicit.pak })
  await stream.frame('snapshot_end')
  await tenant.client.deleteStack({ params })
  await stream.frame('del')
  await broker.admin.deregisterAgent({ params: { id: tenant.generator.id }, body: { agent_id: deregistered.agent.id } })
  await broker.admin.deleteAgent({ params: { id: deleted.agent.id } })

  const restored = await tenant.client.undeleteStack({ params })
  expect(restored).toMatchObject({ id, name, deleted_at: null })
  const put = await stream.frame('put', (frame) => stream.frames.indexOf(frame) > stream.frames.findIndex(({ type }) => type === 'del'))
  expect(put.object).toMatchObject({ yaml_content: config('two'), is_deletion_marker: false })
  expect(put.rev).toBe(put.object?.sequence_id)
  stream.close()
  const objects = await tenant.client.listDeploymentObjects({ params })
  expect(objects.map(({ is_deletion_marker, yaml_content }) => [is_deletion_marker, yaml_content])).toEqual([
    [false, config('two')],
    [true, ''],
  ])
  expect(objects[0]?.rollback_of).not.toBeNull()
  expect(await explain(labelled.agent.id)).toEqual([{ stack_id: id, reasons: ['label'] }])
  expect(await explain(explicit.agent.id)).toEqual([{ stack_id: id, reasons: ['explicit'] }])
  expect(await explain(deregistered.agent.id)).toEqual([])
  await expect(tenant.client.getHold({ params })).rejects.toMatchObject({ code: 'hold_not_found' })
  const { logs } = await broker.admin.listAuditLogs({ query: { resource_id: id, action: 'stack.undeleted' } })
  expect(logs).toMatchObject([{ actor_type: 'generator', details: { deployment_object_id: objects[0]!.id } }])
})

test('[S54] a stack that wanted a deletion marker, or nothing, returns without an object', async () => {
  for (const values of [['one', null], []] as const) {
    const { params, submit } = await makeStack()
    for (const value of values) await submit(value ?? '', value === null)
    await tenant.client.deleteStack({ params })
    await tenant.client.undeleteStack({ params })
    const objects = await tenant.client.listDeploymentObjects({ params })
    expect(objects.filter(({ is_deletion_marker }) => !is_deletion_marker)).toEqual([])
    expect((await submit('again')).sequence_id).toBeGreaterThan(objects[0]?.sequence_id ?? 0)
  }
})

test('[S54] an undelete is refused while the stack lives, its name is taken or its generator is gone', async () => {
  const { id, name, params } = await makeStack()
  await expect(tenant.client.undeleteStack({ params })).rejects.toMatchObject({ code: 'stack_not_deleted', status: 409 })
  await tenant.client.deleteStack({ params })
  const taken = await tenant.client.createStack({ body: { name, generator_id: tenant.generator.id } })
  await expect(tenant.client.undeleteStack({ params })).rejects.toMatchObject({
    code: 'unique_violation',
    details: { constraint: 'unique_stack_name' },
  })
  await tenant.client.deleteStack({ params: { id: taken.id } })
  expect((await tenant.client.undeleteStack({ params })).id).toBe(id)
  const other = await createGenerator(broker)
  const orphan = await makeStack([], other)
  await expect(tenant.client.undeleteStack({ params: orphan.params })).rejects.toMatchObject({ code: 'stack_not_owned' })
  await broker.admin.deleteGenerator({ params: { id: other.generator.id } })
  await expect(broker.admin.undeleteStack({ params: orphan.params })).rejects.toMatchObject({ code: 'generator_deleted', status: 409 })
})

test('[S54] of two undeletes at once one takes effect', async () => {
  const { params, submit } = await makeStack()
  await submit('one')
  await tenant.client.deleteStack({ params })
  const outcomes = await Promise.allSettled([tenant.client.undeleteStack({ params }), tenant.client.undeleteStack({ params })])
  expect(outcomes.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
  expect((await tenant.client.listDeploymentObjects({ params })).filter((object) => !object.is_deletion_marker)).toHaveLength(1)
})

test('[S54] an undelete that waits for a report holds none of the counts that the report needs', async () => {
  const label = unique('l')
  const { id, params, submit } = await makeStack([label])
  await submit('one')
  const labelled = await createAgent(broker, { labels: [label], generators: [tenant] })
  const explicit = await createAgent(broker, { generators: [tenant] })
  await tenant.client.addTarget({ params: { id: explicit.agent.id }, body: { agent_id: explicit.agent.id, stack_id: id } })
  await tenant.client.deleteStack({ params })
  // The locks of a report on the removal, in their order.
  const report = new pg.Client({ connectionString: broker.databaseUrl })
  await report.connect()
  try {
    await report.query('begin')
    await report.query('select from agent_stack_status where agent_id = $1 and stack_id = $2 for no key update', [labelled.agent.id, id])
    const undeleted = tenant.client.undeleteStack({ params })
    await waitFor('the undelete to wait for the report', async () => {
      const waiting = await runSql(
        broker.databaseUrl,
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%agent_stack_status%'`,
      )
      return waiting.length > 0
    })
    await report.query('select from stack_summary where stack_id = $1 for no key update nowait', [id])
    await report.query('commit')
    expect((await undeleted).deleted_at).toBeNull()
  } finally {
    await report.end()
  }
  expect(await explain(labelled.agent.id)).toEqual([{ stack_id: id, reasons: ['label'] }])
  expect(await explain(explicit.agent.id)).toEqual([{ stack_id: id, reasons: ['explicit'] }])
})
