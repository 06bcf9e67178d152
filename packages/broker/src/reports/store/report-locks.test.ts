// Reports of one agent that cross each other: on one stack and on several, of what it did and of what could not be sent to it.
import { randomUUID } from 'node:crypto'
import { type Database, openDatabase } from '@brokkr/postgres'
import { database, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import type pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import * as agentStackStatus from './agent-stack-status.ts'

let db: TestDatabase
let sql: Database
let client: pg.Client
beforeAll(async () => {
  db = await database()
  sql = openDatabase({ url: db.url, schema: 'public', poolSize: 4 })
  client = await db.connect()
  return () => Promise.all([sql.close(), client.end()])
})

/** An agent with two stacks, in the order in which they are locked. */
async function pair(): Promise<{ agentId: string; stackIds: [string, string] }> {
  const [generatorId, agentId] = [randomUUID(), randomUUID()]
  const stackIds = [randomUUID(), randomUUID()].toSorted() as [string, string]
  await client.query('insert into generators (id, name) values ($1, $1::uuid::text)', [generatorId])
  await client.query(`insert into agents (id, name, cluster_name) values ($1, $1::uuid::text, 'c')`, [agentId])
  for (const stackId of stackIds) {
    await client.query('insert into stacks (id, name, generator_id) values ($1, $1::uuid::text, $2)', [stackId, generatorId])
    await client.query('insert into agent_targets (id, agent_id, stack_id, explicit) values (gen_random_uuid(), $1, $2, true)', [
      agentId,
      stackId,
    ])
  }
  return { agentId, stackIds }
}
let n = 0
const report = (agentId: string, stackIds: readonly string[], phase: string) => {
  const reports = stackIds.map((stack_id) => ({ stack_id, rev: 1, object_id: null, phase, attempts: 1 }))
  return agentStackStatus.record(sql, { agent_id: agentId, session: 1, n: (n += 1), reports: JSON.stringify(reports) })
}
const waiting = async (count: number) =>
  waitFor(`${count} that wait for a lock`, async () => {
    const { rowCount } = await client.query(
      `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query ilike '%agent_stack_status%'`,
    )
    return rowCount === count
  })

test.each([
  ['a report on one', (agentId: string, stackId: string) => report(agentId, [stackId], 'failed')],
  [
    'what could not be sent',
    (agentId: string, stackId: string) => {
      const skip = { agent_id: agentId, stack_id: stackId, rev: 1, object_id: null, code: 'too_large', message: 'x' }
      return agentStackStatus.recordSkips(sql, { skips: JSON.stringify([skip]) })
    },
  ],
])('a report on two stacks and %s of them wait for each other in one order', async (_, one) => {
  const { agentId, stackIds } = await pair()
  await report(agentId, stackIds, 'pending')
  const holder = await db.connect()
  await holder.query('begin')
  await holder.query('select from stack_summary where stack_id = $1 for update', [stackIds[1]])
  // It has the count of the first stack and waits for that of the second.
  const both = report(agentId, stackIds, 'held')
  await waiting(1)
  const single = one(agentId, stackIds[0])
  await waiting(2)
  await holder.query('commit')
  await holder.end()
  expect(await both).toHaveLength(2)
  await single
})

test('a report waiting for a status row holds no summary lock', async () => {
  const { agentId, stackIds } = await pair()
  await report(agentId, stackIds, 'removed')
  const holder = await db.connect()
  await holder.query('begin')
  await holder.query('select from agent_stack_status where stack_id = $1 for no key update', [stackIds[0]])
  const late = report(agentId, stackIds, 'applied')
  await waiting(1)
  await holder.query('select from stack_summary where stack_id = any($1) for no key update nowait', [stackIds])
  await holder.query('commit')
  await holder.end()
  expect(await late).toHaveLength(2)
})
