import { randomUUID } from 'node:crypto'
import { type Database, openDatabase } from '@brokkr/postgres'
import { database } from '@brokkr/testing/servers/postgres.ts'
import type pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { type HeartbeatRow, writeHeartbeat } from './heartbeat-batch.ts'

let sql: Database
let client: pg.Client
beforeAll(async () => {
  const db = await database()
  sql = openDatabase({ url: db.url, schema: 'public', poolSize: 4 })
  client = await db.connect()
  return () => Promise.all([sql.close(), client.end()])
})

async function addAgent(state = 'connected'): Promise<string> {
  const id = randomUUID()
  const made = `insert into agents (id, name, cluster_name, connection_state, agent_version) values ($1, $1::uuid::text, 'c', $2, '1.0.0')`
  await client.query(made, [id, state])
  await client.query('insert into agent_liveness (agent_id) values ($1) on conflict do nothing', [id])
  return id
}
const signOf = (agent_id: string, more: Partial<HeartbeatRow> = {}): HeartbeatRow => ({
  agent_id,
  k8s_reachable: null,
  k8s_api_latency_ms: null,
  agent_version: null,
  facts: null,
  ...more,
})
const livenessOf = async (id: string) =>
  (
    await client.query(
      'select k8s_reachable, k8s_api_latency_ms, last_heartbeat is not null as beat from agent_liveness where agent_id = $1',
      [id],
    )
  ).rows[0] as unknown

test('batched heartbeats return the state of their own agent', async () => {
  const [quiet, reachable, silent, renewed] = [await addAgent(), await addAgent(), await addAgent('disconnected'), await addAgent()]
  const told = await Promise.all([
    writeHeartbeat(sql, signOf(quiet)),
    writeHeartbeat(sql, signOf(reachable, { k8s_reachable: false, k8s_api_latency_ms: 4, agent_version: '1.0.0' })),
    writeHeartbeat(sql, signOf(silent)),
    writeHeartbeat(sql, signOf(renewed, { agent_version: '1.1.0', facts: '{"preset":"a \\"b\\", {c}"}' })),
    writeHeartbeat(sql, signOf(randomUUID())),
  ])
  expect(told.map((seen) => seen && [seen.is_connected, seen.has_news])).toEqual([
    [true, false],
    [true, false],
    [false, false],
    [true, true],
    null,
  ])
  expect(await livenessOf(quiet)).toEqual({ k8s_reachable: null, k8s_api_latency_ms: null, beat: true })
  expect(await livenessOf(reachable)).toEqual({ k8s_reachable: false, k8s_api_latency_ms: 4, beat: true })
})

test('two heartbeats of one agent in a batch have the effect of two in sequence', async () => {
  const id = await addAgent()
  const reachable = { k8s_reachable: true, k8s_api_latency_ms: 9 }
  const signs = [signOf(id, { k8s_reachable: false, agent_version: '2.0.0' }), signOf(id, reachable), signOf(id), signOf(await addAgent())]
  const told = await Promise.all(signs.map((sign) => writeHeartbeat(sql, sign)))
  expect(told.map((seen) => seen?.has_news)).toEqual([true, true, true, false])
  expect(await livenessOf(id)).toEqual({ ...reachable, beat: true })
})

test('a locked agent row delays only the heartbeat of that agent', async () => {
  const [held, free] = [await addAgent(), await addAgent()]
  await client.query('begin')
  await client.query('select from agent_liveness where agent_id = $1 for update', [held])
  let isHeldTold = false
  const waiting = writeHeartbeat(sql, signOf(held)).then(() => (isHeldTold = true))
  expect(await writeHeartbeat(sql, signOf(free))).toEqual({ agent_id: free, is_connected: true, has_news: false })
  expect(isHeldTold).toBe(false)
  await client.query('commit')
  await waiting
  expect(await livenessOf(held)).toMatchObject({ beat: true })
})
