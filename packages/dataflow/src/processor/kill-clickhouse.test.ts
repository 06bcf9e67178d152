// long: a processor and its ClickHouse are killed twice each while 20,000 rows go from PostgreSQL to ClickHouse.
import { privateClickhouse } from '@brokkr/testing/servers/clickhouse.ts'
import { emptyDatabase } from '@brokkr/testing/servers/postgres.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { startChain } from './test-parts/killed-chain.ts'

const limitMs = 300_000
const kills = size('processor.kills')
const messages = size('processor.messages')

test('[D101] rows from PostgreSQL are in ClickHouse once each although processor and server are killed', async () => {
  const [database, clickhouse] = [await emptyDatabase(), await privateClickhouse()]
  const target = await clickhouse.database()
  const client = await database.connect()
  await client.query('create table orders (id int primary key, pad text, updated_at timestamptz not null default clock_timestamp())')
  await target.run(
    `create table orders (id Int64, pad String, updated_at DateTime64(6), _brokkr_batch LowCardinality(String)) engine = MergeTree order by id settings non_replicated_deduplication_window = 1000`,
  )
  const insert = (from: number, count: number) =>
    client.query(`insert into orders (id, pad) select id, repeat('x', 100) from generate_series($1::int, $2::int) id`, [
      from,
      from + count - 1,
    ])
  const count = async () => (await target.rows<{ n: number }>('select count() as n from orders'))[0]!.n
  const chain = await startChain(
    'orders',
    {
      source: { type: 'postgresql', config: { connectionString: database.url, table: 'orders', pollInterval: 1, overlapSeconds: 0 } },
      sink: {
        type: 'clickhouse',
        config: { connectionString: target.url, table: 'orders', exactlyOnce: 'required', batchSize: 500, batchFlushIntervalSeconds: 0.05 },
      },
    },
    count,
    limitMs,
  )
  const rounds = 2 * kills
  const part = messages / rounds
  for (let round = 0; round < rounds; round += 1) {
    const before = await chain.progress()
    await insert(round * part, part)
    await chain.passes(before)
    if (round % 2 === 0) await chain.kill()
    else {
      await clickhouse.kill('SIGKILL')
      await clickhouse.start()
    }
  }
  await waitFor('all rows', async () => (await count()) >= messages, { limitMs, onTimeout: () => chain.state() })
  expect(await chain.stop()).toBe(0)
  expect(await target.rows('select count() as n, uniqExact(id) as ids, min(id) as first, max(id) as last from orders')).toEqual([
    { n: messages, ids: messages, first: 0, last: messages - 1 },
  ])
  await client.end()
}, 900_000)
