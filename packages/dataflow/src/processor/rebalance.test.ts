// Several readers of one group: partitions move from one to the other under load, and a sink that keeps positions has every row once.
import { emptyDatabase } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { committed, fill } from '../connectors/test-parts/kafka-topics.ts'
import { kafkaSetup } from './test-parts/kafka-setup.ts'
import { startFlow } from './test-parts/real-flow.ts'

const limits = { limitMs: 180_000 }

test('a rebalance under load writes every row once and commits no unwritten row', async () => {
  const { from, group, source } = await kafkaSetup({ partitions: 4 })
  const database = await emptyDatabase()
  const client = await database.connect()
  await client.query(`create table target (id int, pad text);
    create function wait() returns trigger language plpgsql as $$ begin perform pg_sleep(0.1); return null; end $$;
    create trigger wait after insert on target for each statement execute function wait()`)
  const spec = {
    // Small reads: what is open when a partition moves is a small part of everything.
    source: { ...source, config: { ...source.config, fetchMaxBytes: 65_536, maxPartitionFetchBytes: 16_384 } },
    sink: { type: 'postgresql', config: { connectionString: database.url, table: 'target', batchSize: 20, exactlyOnce: 'required' } },
    replicas: 2,
  }
  const count = 3000
  const rows = async () =>
    (await client.query<{ all: number; ids: number }>('select count(*)::int as all, count(distinct id)::int as ids from target')).rows[0]!
  const total = async () => Object.values(await committed(group, from)).reduce((sum, offset) => sum + offset, 0)
  await fill(
    from,
    Array.from({ length: count }, (_, id) => ({ key: String(id), value: JSON.stringify({ id, pad: 'x' }) })),
  )
  const first = startFlow(spec)
  await waitFor('the first rows', async () => (await rows()).all > 200, limits)
  const second = startFlow(spec)
  await waitFor('the second reader to have its share', () => second.progress().writtenCount > 50, {
    ...limits,
    onTimeout: () => second.logged.slice(-10).join(''),
  })
  expect(await total()).toBeLessThanOrEqual((await rows()).all)
  expect((await first.stop()).exitCode).toBe(0)
  expect(await total()).toBeLessThanOrEqual((await rows()).all)
  await waitFor('everything', async () => (await total()) === count, { ...limits, onTimeout: () => second.logged.slice(-10).join('') })
  expect((await second.stop()).exitCode).toBe(0)
  expect(await rows()).toEqual({ all: count, ids: count })
  await client.end()
}, 600_000)
