// One transaction of many rows from a slot to a topic: every row arrives.
import { privatePostgres } from '@brokkr/testing/servers/postgres.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { drain } from '../connectors/test-parts/kafka-topics.ts'
import { kafkaSetup } from './test-parts/kafka-setup.ts'
import { startFlow } from './test-parts/real-flow.ts'

test('every row of one large transaction reaches the topic', async () => {
  const rows = size('D98.rows') * 3
  const server = await privatePostgres()
  const database = await server.database()
  const client = await database.connect()
  await client.query('create table captured (id int primary key, note text)')
  const { to, sink } = await kafkaSetup({ partitions: 3 })
  const config = { connectionString: database.url, tables: ['public.captured'], slotName: 'large', snapshotMode: 'never' }
  const flow = startFlow({ source: { type: 'postgresql-cdc', config }, sink })
  await waitFor('the flow to read', () => flow.pipeline.isReady, { limitMs: 120_000 })
  await waitFor('the slot', async () => (await client.query('select 1 from pg_replication_slots where active')).rowCount === 1, {
    limitMs: 120_000,
  })
  await client.query(`insert into captured select n, repeat('leave it at the door ', 30) from generate_series(1, ${rows}) n`)
  await waitFor('everything', () => flow.progress().processedCount >= rows, {
    limitMs: 300_000,
    onTimeout: () => `${JSON.stringify(flow.progress())}\n${flow.logged.slice(-20).join('')}`,
  })
  const ids = (await drain(to)).map(({ value }) => (JSON.parse(value!) as { id: number }).id)
  expect(new Set(ids).size).toBe(rows)
  expect(ids.length).toBe(rows)
  await flow.stop()
  await client.end()
}, 600_000)
