// long: waits for failures to be written
import type { AuditLog } from '@brokkr/contract/audit/audit-log.ts'
import { createAgent, createGenerator, startTestBroker, type TestBroker, type TestGenerator, unique } from '@brokkr/testing/broker.ts'
import { database, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'

/** The same key but for its last character, whatever that is. */
const wrongOf = (pak: string): string => pak.slice(0, -1) + (pak.endsWith('1') ? '2' : '1')
let db: TestDatabase
let broker: TestBroker
let tenant: TestGenerator
let since: string
beforeAll(async () => {
  db = await database()
  broker = await startTestBroker({ databaseUrl: db.url })
  since = new Date().toISOString()
  tenant = await createGenerator(broker)
  for (const n of [1, 2, 3, 4, 5]) await tenant.client.createStack({ body: { name: `s${n}`, generator_id: tenant.generator.id } })
  return () => broker.kill()
})
const list = (query: Record<string, unknown>) => broker.admin.listAuditLogs({ query })
const names = ({ logs }: { logs: AuditLog[] }) => logs.map(({ details }) => details?.['name'])

test('an audit entry contains actor, action, resource and request id', async () => {
  const { logs, total, count, limit, offset } = await list({ action: 'stack.created' })
  expect([total, count, limit, offset]).toEqual([5, 5, 100, 0])
  expect(names({ logs })).toEqual(['s5', 's4', 's3', 's2', 's1'])
  expect(logs[0]).toMatchObject({
    actor_type: 'generator',
    actor_id: tenant.generator.id,
    actor_name: tenant.generator.name,
    resource_type: 'stack',
    ip_address: '127.0.0.1',
    user_agent: 'brokkr-test',
    details: { name: 's5', request_id: expect.any(String) as string },
  })
  const [first] = (await list({ actor_type: 'system', action: 'pak.created' })).logs
  expect(first).toMatchObject({ actor_name: 'system', actor_id: null })
  expect(first).not.toHaveProperty('ip_address')
  expect((await list({ action: 'generator.created' })).logs[0]).toMatchObject({ actor_type: 'admin', actor_name: 'admin' })
})

test.each([
  ['an exact action', () => ({ action: 'stack.created' }), 5],
  ['actions by their beginning', () => ({ action: 'stack.*' }), 5],
  ['a star alone', () => ({ action: '*', actor_type: 'generator' }), 5],
  ['a percent sign is no pattern', () => ({ action: 'stack%*' }), 0],
  ['an actor', () => ({ actor_id: tenant.generator.id }), 5],
  ['a kind of resource', () => ({ resource_type: 'generator', resource_id: tenant.generator.id }), 1],
  ['a time, inclusive', () => ({ from: since, actor_type: 'generator' }), 5],
  ['a time, exclusive', () => ({ to: since, actor_type: 'generator' }), 0],
  ['the future', () => ({ from: '2999-01-01T00:00:00Z' }), 0],
])('filter: %s', async (_, query, total) => {
  expect((await list(query())).total).toBe(total)
})

test('from is inclusive and to exclusive, to the microsecond', async () => {
  const { logs } = await list({ action: 'stack.created' })
  const at = logs[2]!.timestamp
  expect(names(await list({ action: 'stack.created', from: at }))).toEqual(['s5', 's4', 's3'])
  expect(names(await list({ action: 'stack.created', to: at }))).toEqual(['s2', 's1'])
})

test('limits are drawn into their range, other nonsense is refused', async () => {
  const range = async (query: Record<string, unknown>) => {
    const { limit, offset, count } = await list({ action: 'stack.created', ...query })
    return [limit, offset, count]
  }
  expect(await range({ limit: 0 })).toEqual([1, 0, 1])
  expect(await range({ limit: -1 })).toEqual([1, 0, 1])
  expect(await range({ limit: 5000 })).toEqual([1000, 0, 5])
  expect(await range({ offset: -1 })).toEqual([100, 0, 5])
  expect(await range({ offset: 3 })).toEqual([100, 3, 2])
  expect(await range({ offset: 20_000 })).toEqual([100, 10_000, 0])
  for (const query of [{ limit: 'x' }, { from: 'yesterday' }, { actor_id: 'no' }, { limit: 1.5 }])
    await expect(list(query)).rejects.toMatchObject({ code: 'invalid_query_parameter' })
})

test('audit pages are stable by cursor, and a cursor is bound to its filters', async () => {
  const read = (after: string | null) =>
    broker.admin.call('listAuditLogs', { query: { action: 'stack.*', limit: 2, ...(after === null ? {} : { cursor: after }) } })
  const seen: unknown[] = []
  let cursor: string | null = null
  do {
    const page = await read(cursor)
    seen.push(...names(page.body))
    cursor = page.header('x-next-cursor')
    expect(page.header('link') === null).toBe(cursor === null)
    // What comes on top does not push rows into the next page.
    await tenant.client.createStack({ body: { name: unique('later'), generator_id: tenant.generator.id } })
  } while (cursor !== null)
  expect(seen).toEqual(['s5', 's4', 's3', 's2', 's1'])
  const first = await read(null)
  const foreign = { action: 'agent.*', limit: 2, cursor: first.header('x-next-cursor')! }
  await expect(list(foreign)).rejects.toMatchObject({ code: 'invalid_cursor' })
})

test('refused PAKs and denied calls are audited without the PAK', async () => {
  const agent = await createAgent(broker, { generators: [tenant] })
  await expect(agent.client.listAuditLogs({})).rejects.toMatchObject({ code: 'admin_required' })
  await expect(broker.clientOf(wrongOf(agent.pak)).listStacks({})).rejects.toMatchObject({ code: 'unauthorized' })
  const denied = await waitFor('audit of the denial', async () => (await list({ action: 'auth.denied' })).logs[0])
  expect(denied).toMatchObject({ actor_name: agent.agent.name, details: { endpoint: 'listAuditLogs', code: 'admin_required' } })
  const failed = await waitFor('audit of the failure', async () => (await list({ action: 'auth.failed' })).logs[0])
  expect(failed).toMatchObject({
    actor_type: 'system',
    resource_type: 'system',
    resource_id: null,
    details: { short_token: agent.pak.split('_')[1] },
  })
  expect(JSON.stringify([denied, failed])).not.toContain(agent.pak.split('_')[2]!.slice(0, 12))
})

test('queued audit entries are written at a graceful stop', async () => {
  const own = await startTestBroker({ env: { BROKKR__BROKER__AUDIT_FLUSH_MS: '60000' } })
  await expect(own.clientOf(wrongOf(own.adminPak)).listStacks({})).rejects.toMatchObject({ code: 'unauthorized' })
  expect((await own.admin.listAuditLogs({ query: { action: 'auth.failed' } })).total).toBe(0)
  expect(await own.stop()).toBe(0)
  const again = await own.again()
  expect((await again.admin.listAuditLogs({ query: { action: 'auth.failed' } })).total).toBe(1)
  await again.kill()
})
