// The connections of the change feed over a link that goes silent without closing.
import { openDatabase } from '@brokkr/postgres'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { loadConfig } from '@brokkr/runtime/config/load-config.ts'
import { silentLog as log } from '@brokkr/runtime/logging/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { proxiedPostgres } from '@brokkr/testing/faults/postgres-proxy.ts'
import { database } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, onTestFinished, test } from 'vitest'
import { brokerTable } from '../config.ts'
import { createManifestCache } from '../deployments/manifest-cache.ts'
import { createSeal } from '../seal.ts'
import { createChangeFeed } from './change-feed.ts'
import { createListener } from './reader/listener.ts'

/** Statements of the pool use the database directly; `connect` uses the link. */
async function setup() {
  const db = await database()
  const { url: sessionUrl, proxy } = await proxiedPostgres(db.url)
  const sql = openDatabase({ url: db.url, sessionUrl, schema: 'public', poolSize: 3, connectTimeoutMs: 1_000 })
  onTestFinished(async () => {
    await sql.close()
    await proxy.close()
  })
  return { db, sql, proxy }
}

test('the listener is down while its connection is half-open and reconnects afterwards', async () => {
  const { sql, proxy } = await setup()
  const listener = createListener(
    { connect: sql.connect, sql, clock, log },
    { channel: 'half_open', processId: 'p1', testEveryMs: 50, testLimitMs: 500 },
  )
  listener.start({ onWake: () => undefined, onPayload: () => undefined })
  await waitFor('the listener to be up', () => listener.isUp)
  proxy.halfOpen()
  await waitFor('the listener to be down', () => !listener.isUp)
  proxy.heal()
  await waitFor('the listener to be up again', () => listener.isUp)
  proxy.halfOpen()
  await listener.stop()
  expect(listener.isUp).toBe(false)
})

test('the listener is up although every connection of the pool is busy', async () => {
  const { sql } = await setup()
  const released = Promise.withResolvers<void>()
  const started = Array.from({ length: 3 }, () => Promise.withResolvers<void>())
  const busy = started.map(({ resolve }) =>
    sql.begin(async (transaction) => {
      await transaction.query({ name: 'half_open.hold', text: 'select 1', values: [] })
      resolve()
      await released.promise
    }),
  )
  await Promise.all(started.map(({ promise }) => promise))
  const listener = createListener(
    { connect: sql.connect, sql, clock, log },
    { channel: 'busy_pool', processId: 'p1', testEveryMs: 50, testLimitMs: 2_000 },
  )
  listener.start({ onWake: () => undefined, onPayload: () => undefined })
  await waitFor('the listener to be up', () => listener.isUp)
  released.resolve()
  await Promise.all(busy)
  await listener.stop()
})

test('the change feed stops although its connections are half-open', async () => {
  const { db, sql, proxy } = await setup()
  const key = 'ab'.repeat(32)
  const { value: config } = await loadConfig({
    table: brokerTable,
    env: { DATABASE_URL: db.url, BROKKR__BROKER__ENCRYPTION_KEY: key, BROKKR__FEED__STALE_SECONDS: '0.5,60', BROKKR__FEED__POLL_MS: '50' },
  })
  const feed = createChangeFeed({
    database: sql,
    snapshotSql: sql,
    texts: createManifestCache({ seal: createSeal([Buffer.from(key, 'hex')]), clock }),
    clock,
    log,
    metrics: createMetrics(),
    schema: 'public',
    settings: config.feed,
    objectBytesMax: config.limits.object_body_bytes,
    brokerName: 'half-open',
  })
  feed.start()
  await waitFor('the feed to be read', () => feed.getTrouble() === null)
  proxy.halfOpen()
  await waitFor('the feed to be stale', () => feed.getTrouble() === 'stale')
  await feed.stop()
})
