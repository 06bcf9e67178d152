// The polled list against a real broker that keeps texts it has opened: a kept text is told to nobody whose list does not have it, masked
// to who reads masked, and a text that cannot be opened is an error, never an empty one.
import { createAgent, createGenerator, startTestBroker, type TestBroker, type TestGenerator, unique } from '@brokkr/testing/broker.ts'
import { database } from '@brokkr/testing/servers/postgres.ts'
import type pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { ask } from '../../http/server/http-call.fixture.ts'

let broker: TestBroker
let tenant: TestGenerator
let client: pg.Client
beforeAll(async () => {
  const db = await database()
  broker = await startTestBroker({ databaseUrl: db.url })
  tenant = await createGenerator(broker)
  client = await db.connect()
  return () => Promise.all([broker.kill(), client.end()])
})

const secret = 'apiVersion: v1\nkind: Secret\nmetadata:\n  name: s\nstringData:\n  password: hunter2\n'
async function deployed() {
  const label = unique('l')
  const stack = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id, labels: [label] } })
  const object = await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: secret } })
  return { stack, object, agent: await createAgent(broker, { labels: [label], generators: [tenant] }) }
}
const stateOf = ({ agent }: { agent: { id: string } }, options: { pak: string; tag?: string; mode?: string }) =>
  ask(broker, `GET /agents/${agent.id}/target-state?mode=${options.mode ?? 'full'}`, {
    pak: options.pak,
    headers: options.tag === undefined ? {} : { 'if-none-match': options.tag },
  })

test('a target state has count, digest and ETag, and returns 304 if unchanged', async () => {
  const { agent, object, stack } = await deployed()
  const first = await stateOf(agent, agent)
  expect(first.json).toEqual([{ ...object, stack_name: stack.name, rev: 1, drift: 'heal', yaml_content: secret }])
  expect(first.header('x-brokkr-count')).toBe('1')
  const tag = first.header('etag')!
  expect(tag).toBe(`"${first.header('x-brokkr-digest')}"`)
  expect((await stateOf(agent, { ...agent, tag })).status).toBe(304)
  expect((await stateOf(agent, agent)).text).toBe(first.text)
  expect((await stateOf(agent, { ...agent, mode: 'incremental' })).header('etag')).toBeNull()
})

test('a cached manifest is sent only to agents that the stack targets', async () => {
  const { agent } = await deployed()
  const other = await createAgent(broker, { generators: [tenant] })
  expect((await stateOf(agent, agent)).text).toContain('hunter2')
  expect((await stateOf(agent, other)).code).toBe('agent_pak_mismatch')
  expect((await stateOf(other, other)).text).toBe('[]')
  await broker.admin.deregisterAgent({ params: { id: tenant.generator.id }, body: { agent_id: agent.agent.id } })
  expect((await stateOf(agent, agent)).text).not.toContain('hunter2')
})

test('a masked reader gets a cached manifest masked', async () => {
  const { agent, stack } = await deployed()
  // From the second time on it is kept as it is written, too.
  const clear = await stateOf(agent, agent)
  for (let times = 0; times < 3; times += 1) expect((await stateOf(agent, agent)).text).toBe(clear.text)
  expect(clear.text).toContain('hunter2')
  const { pak } = await broker.admin.createAdminPak({ body: { name: unique('reader'), readonly: true } })
  const masked = await stateOf(agent, { pak })
  expect(masked.status).toBe(200)
  expect(masked.text).not.toContain('hunter2')
  const listed = await ask(broker, `GET /stacks/${stack.id}/deployment-objects`, { pak })
  expect(listed.status).toBe(200)
  expect(listed.text).not.toContain('hunter2')
})

test('the target state has the latest deployment object that is not deleted', async () => {
  const { agent, object, stack } = await deployed()
  const newer = await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: secret } })
  const told = async () => ((await stateOf(agent, agent)).json as { id: string }[]).map(({ id }) => id)
  expect(await told()).toEqual([newer.id])
  await client.query('begin')
  await client.query('update stacks set last_sequence = last_sequence + 1, sequence_xid = pg_current_xact_id() where id = $1', [stack.id])
  await client.query('update deployment_objects set deleted_at = now(), updated_at = now() where id = $1', [newer.id])
  await client.query('commit')
  expect(await told()).toEqual([object.id])
  const newest = await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: secret } })
  expect(await told()).toEqual([newest.id])
})

test('a manifest that no key decrypts returns an error without its reason', async () => {
  const { agent, object } = await deployed()
  await client.query('set session_replication_role = replica')
  await client.query(`update deployment_objects set yaml_sealed = set_byte(yaml_sealed, 20, get_byte(yaml_sealed, 20) # 1) where id = $1`, [
    object.id,
  ])
  for (const mode of ['full', 'incremental']) {
    const answer = await stateOf(agent, { ...agent, mode })
    expect([answer.status, answer.code]).toEqual([500, 'internal_error'])
    expect(answer.text).not.toContain('configured key')
  }
})
