import { openDatabase } from '@brokkr/postgres'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { createLog } from '@brokkr/runtime/logging/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { database } from '@brokkr/testing/servers/postgres.ts'
import { expect, test } from 'vitest'
import { type AuditEntry, createAuditWriter } from './record.ts'
import { systemActor } from './rules.ts'

const entry = (n: number): AuditEntry => ({
  actor: { ...systemActor, address: '192.0.2.1', userAgent: 'x'.repeat(600) },
  action: 'auth.failed',
  resource: { type: 'system', id: null },
  details: n % 2 === 0 ? { path: `/${n}` } : {},
})

async function setUp() {
  const db = await database()
  const sql = openDatabase({ url: db.url, schema: 'public', poolSize: 2 })
  const client = await db.connect()
  const metrics = createMetrics()
  const log = createLog({ name: 'test', level: 'error', format: 'json' })
  const writer = createAuditWriter({ sql, clock: systemClock, log, metrics }, { flushMs: 20, batchRows: 100 })
  const dropped = async () => Number(/brokkr_audit_dropped_total (\d+)/.exec(await metrics.text())?.[1] ?? 0)
  const stored = async () => (await client.query<{ n: number }>('select count(*)::int as n from audit_logs')).rows[0]!.n
  const close = () => Promise.all([sql.close(), client.end()])
  return { sql, client, writer, dropped, stored, close }
}

test('the audit queue holds 10,000 entries while the database stalls and counts the others', async () => {
  const { client, writer, dropped, stored, close } = await setUp()
  await client.query('begin; lock table audit_logs in access exclusive mode')
  for (let n = 0; n < 30_000; n += 1) {
    writer.record(entry(n))
    // Lets the writer begin its statements, as calls in a row do.
    if (n % 100 === 0) await new Promise(setImmediate)
  }
  expect(await dropped()).toBeGreaterThanOrEqual(20_000)
  await client.query('commit')
  await writer.close()
  // A batch that waited longer than the lock timeout is dropped and counted, too.
  expect([(await stored()) + (await dropped()), (await stored()) > 0]).toEqual([30_000, true])
  await close()
})

test('audit entries of a batch are written as they are one by one', async () => {
  const { client, writer, close } = await setUp()
  writer.record(entry(1))
  writer.record(entry(2))
  await writer.close()
  const { rows } = await client.query<Record<string, unknown>>(
    'select actor_type, actor_id, action, resource_type, resource_id, details, ip_address, length(user_agent) as agent from audit_logs order by details nulls first',
  )
  const common = { actor_type: 'system', actor_id: null, action: 'auth.failed', resource_type: 'system', resource_id: null }
  expect(rows).toEqual([
    { ...common, details: null, ip_address: '192.0.2.1', agent: 512 },
    { ...common, details: { path: '/2' }, ip_address: '192.0.2.1', agent: 512 },
  ])
  await close()
})

test('an audit entry recorded after a flush is written', async () => {
  const { writer, stored, close } = await setUp()
  await writer.close()
  writer.record(entry(1))
  await writer.close()
  expect(await stored()).toBe(1)
  await close()
})
