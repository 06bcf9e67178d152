// Keyed calls hold no connection while they wait for the network or for a worker.
import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { openDatabase } from '@brokkr/postgres'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { startTestBroker, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { database, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { createSeal } from '../../seal.ts'
import * as stacks from '../../stacks/store/stacks.ts'
import { loopbackAllowed, type Receiver, startReceiver } from '../../webhooks/delivery/receiver.fixture.ts'
import { freshSubscriptions } from '../../webhooks/subscriptions/subscription-cache.ts'
import { createIdempotency } from './idempotency.ts'

const poolSize = 15
let db: TestDatabase
let broker: TestBroker
let receiver: Receiver
let path: string
/** Answers that the receiver has not sent. */
let hung: ServerResponse[] = []
beforeAll(async () => {
  db = await database()
  broker = await startTestBroker({
    databaseUrl: db.url,
    env: { ...loopbackAllowed, BROKKR__DATABASE__POOL_SIZE: String(poolSize) },
  })
  receiver = await startReceiver()
  return () => Promise.all([broker.kill(), receiver.close()])
})
beforeEach(async () => {
  hung = []
  receiver.answer = (response) => void hung.push(response)
  const { id } = await broker.admin.createWebhook({ body: { name: unique('w'), url: receiver.url, event_types: ['agent.*'] } })
  path = `/api/v1/webhooks/${id}/test`
})

const post = async (key: string) => {
  const answer = await fetch(`${broker.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${broker.adminPak}`, 'idempotency-key': key },
  })
  const json = (await answer.json()) as { code?: string }
  return { status: answer.status, code: json.code, isReplay: answer.headers.get('idempotency-replayed') === 'true', json }
}
const whenHung = (count: number) => waitFor(`${count} calls wait for the receiver`, () => hung.length >= count)
const query = async (text: string, values: unknown[] = []) => {
  const client = await db.connect()
  const { rowCount } = await client.query(text, values)
  await client.end()
  return rowCount
}

test('keyed webhook tests against a hung receiver leave the pool to other calls', async () => {
  const calls = Array.from({ length: poolSize + 5 }, () => post(randomUUID()))
  await whenHung(poolSize + 5)
  expect(await query(`select from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'`)).toBe(0)
  expect((await fetch(`${broker.url}/readyz`)).status).toBe(200)
  await broker.admin.listStacks({})
  for (const response of hung) response.end('ok')
  expect((await Promise.all(calls)).map(({ status }) => status)).toEqual(calls.map(() => 200))
})

test('a keyed network call in progress returns 409, then replays its stored response', async () => {
  const key = randomUUID()
  const first = post(key)
  await whenHung(1)
  expect(await post(key)).toMatchObject({ status: 409, code: 'idempotency_in_progress' })
  hung[0]!.end('ok')
  const answered = await first
  expect([answered.status, answered.isReplay]).toEqual([200, false])
  expect(await post(key)).toEqual({ ...answered, isReplay: true })
  expect(hung).toHaveLength(1)
})

test('a failed keyed network call leaves its key free', async () => {
  const key = randomUUID()
  receiver.answer = (response) => void response.writeHead(500).end()
  expect(await post(key)).toMatchObject({ status: 400, code: 'webhook_test_failed' })
  receiver.answer = (response) => void response.end('ok')
  expect(await post(key)).toMatchObject({ status: 200, isReplay: false })
})

test('a keyed network call runs again after its lease, and its late response is not stored', async () => {
  const key = randomUUID()
  const first = post(key)
  await whenHung(1)
  expect(await query(`update idempotency_keys set lease_until = now() where key = $1`, [key])).toBe(1)
  const second = post(key)
  await whenHung(2)
  hung[0]!.end('ok')
  expect((await first).status).toBe(200)
  expect(await post(key)).toMatchObject({ code: 'idempotency_in_progress' })
  hung[1]!.end('ok')
  expect((await second).isReplay).toBe(false)
  expect((await post(key)).isReplay).toBe(true)
})

const keyedCall = () => ({ scope: unique('scope'), key: 'k', bodyHash: 'h', issuesSecret: false, callsNetwork: false })
function openKeyed(effects: string[]) {
  const sql = openDatabase({ url: db.url, schema: 'public', poolSize: 1 })
  const subscriptionCache = { ...freshSubscriptions(), drop: () => void effects.push('hooks dropped') }
  const dropCredential = (kind: string) => void effects.push(`${kind} dropped`)
  const idempotency = createIdempotency(
    {
      database: sql,
      seal: createSeal([Buffer.alloc(32)]),
      metrics: createMetrics(),
      wakeFeed: () => void effects.push('feed woken'),
      dropCredential,
      subscriptionCache,
    },
    { seconds: 60, leaseSeconds: 60 },
  )
  return { sql, idempotency }
}

test('a keyed database action takes its connection with its first statement', async () => {
  const { sql, idempotency } = openKeyed([])
  const answer = await idempotency.run(keyedCall(), async (deps) => {
    // The pool has one connection: this waits for ever if the call holds it already.
    expect(await stacks.get(sql, { id: randomUUID(), with_deleted: false })).toBeNull()
    expect(await stacks.get(deps!.sql, { id: randomUUID(), with_deleted: false })).toBeNull()
    return { status: 201, headers: {}, body: '{}' }
  })
  expect(answer.status).toBe(201)
  await sql.close()
})

test('a keyed database action drops caches and wakes the feed after its commit, or not at all', async () => {
  const effects: string[] = []
  const { sql, idempotency } = openKeyed(effects)
  const run = (status: number | null) =>
    idempotency.run(keyedCall(), async (deps) => {
      deps!.subscriptionCache.drop()
      deps!.dropCredential('agent', randomUUID())
      deps!.wakeFeed()
      expect(effects).toEqual([])
      if (status === null) throw new Error('failed')
      return { status, headers: {}, body: '{}' }
    })
  await expect(run(null)).rejects.toThrow('failed')
  await run(201)
  expect(effects).toEqual(['hooks dropped', 'agent dropped', 'feed woken'])
  await sql.close()
})
