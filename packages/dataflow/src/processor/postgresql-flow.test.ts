// Flows from Kafka into PostgreSQL on real servers: batches, guilty records, outages of the table, an orderly stop.

import { proxiedPostgres } from '@brokkr/testing/faults/postgres-proxy.ts'
import { emptyDatabase } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import type pg from 'pg'
import { expect, test } from 'vitest'
import { committed, fill } from '../connectors/test-parts/kafka-topics.ts'
import { kafkaSetup, lettersOf } from './test-parts/kafka-setup.ts'
import { startFlow } from './test-parts/real-flow.ts'

const limits = { limitMs: 120_000 }
const timeoutMs = 240_000
const numbered = (from: number, count: number) => Array.from({ length: count }, (_, at) => ({ value: JSON.stringify({ n: from + at }) }))

async function setup(table: string) {
  const [kafka, database] = [await kafkaSetup(), await emptyDatabase()]
  const client = await database.connect()
  await client.query(table)
  const sinkWith = (more: object = {}, url = database.url) => ({
    type: 'postgresql',
    config: { connectionString: url, table: 'target', onConflict: 'error', ...more },
  })
  return { ...kafka, database, client, sinkWith }
}
const rowsOf = async (client: pg.Client): Promise<number[]> =>
  (await client.query<{ n: string }>('select n from target order by at')).rows.map(({ n }) => Number(n))
const plainTable = 'create table target (at serial, n int)'
const figure = (text: string, pattern: RegExp): number => [...text.matchAll(pattern)].reduce((sum, match) => sum + Number(match[1]), 0)

test(
  '[D63] batches are cut by number and by time, and a slow sink never has two at once',
  async () => {
    const { from, source, client, sinkWith } = await setup(plainTable)
    const batches = async (flow: ReturnType<typeof startFlow>) =>
      figure(await flow.metrics(), /dataflow_sink_batch_size_count\{[^}]*\} (\d+)/g)
    const byNumber = startFlow({ source, sink: sinkWith({ batchSize: 2, batchFlushIntervalSeconds: 60 }) })
    await waitFor('the flow to read', () => byNumber.pipeline.isReady, limits)
    await fill(from, numbered(0, 1))
    await waitFor('the first message to wait', () => byNumber.progress().openMessages === 1, limits)
    expect(await batches(byNumber)).toBe(0)
    await fill(from, numbered(1, 1))
    await waitFor('both', async () => (await rowsOf(client)).length === 2, limits)
    // A batch is counted after its commit, so its rows are visible first.
    await waitFor('the batch to be counted', async () => (await batches(byNumber)) > 0, limits)
    expect(await batches(byNumber)).toBe(1)
    await byNumber.stop()

    const byBoth = startFlow({ source, sink: sinkWith({ batchSize: 50, batchFlushIntervalSeconds: 0.5 }) })
    await waitFor('the flow to read', () => byBoth.pipeline.isReady, limits)
    await fill(from, numbered(2, 120))
    await waitFor('two full batches and the rest by time', async () => (await rowsOf(client)).length === 122, limits)
    await waitFor('the batches to be counted', async () => (await batches(byBoth)) >= 3, limits)
    expect(figure(await byBoth.metrics(), /dataflow_sink_batch_size_bucket\{le="64"[^}]*\} (\d+)/g)).toBe(await batches(byBoth))
    await byBoth.stop()

    await client.query(`create table flushes (began timestamptz, ended timestamptz);
      create function note() returns trigger language plpgsql as $$
      declare began timestamptz := clock_timestamp();
      begin perform pg_sleep(0.05); insert into flushes values (began, clock_timestamp()); return null; end $$;
      create trigger slow after insert on target for each statement execute function note()`)
    await fill(from, numbered(122, 200))
    await startFlow({ source, sink: sinkWith({ batchSize: 10 }) }, { isBounded: true }).done
    const { rows } = await client.query<{ twice: string; flushes: string }>(
      'select count(*) flushes, (select count(*) from flushes a join flushes b on a.began < b.began and b.began < a.ended) twice from flushes',
    )
    expect(Number(rows[0]!.twice)).toBe(0)
    expect(Number(rows[0]!.flushes)).toBeGreaterThanOrEqual(20)
    expect(await rowsOf(client)).toEqual(Array.from({ length: 322 }, (_, n) => n))
    await client.end()
  },
  timeoutMs,
)

test(
  '[D67] three bad records of a thousand become three dead letters in at most 67 writes',
  async () => {
    const { from, dead, group, source, errors, client, sinkWith } = await setup(
      'create table target (at serial, n int check (n not in (7, 500, 999)))',
    )
    await fill(from, numbered(0, 1000))
    const flow = startFlow({ source, errors, sink: sinkWith({ batchSize: 1000, batchFlushIntervalSeconds: 30 }) })
    await waitFor('everything', async () => (await committed(group, from))[0] === 1000, limits)
    const rows = await rowsOf(client)
    expect(rows).toEqual(Array.from({ length: 1000 }, (_, n) => n).filter((n) => ![7, 500, 999].includes(n)))
    const letters = await lettersOf(dead)
    expect(letters.map(({ original_message }) => original_message)).toEqual([{ n: 7 }, { n: 500 }, { n: 999 }])
    expect(letters.map(({ error }) => [error.stage, error.type, error.position])).toEqual(
      [7, 500, 999].map((n) => ['sink', 'constraint_violation', `${from}[0]=${n}`]),
    )
    const text = await flow.metrics()
    const writes =
      figure(text, /dataflow_connector_errors_total\{[^}]*operation="write"[^}]*\} (\d+)/g) +
      figure(text, /dataflow_sink_batch_size_count\{[^}]*sink_type="postgresql"[^}]*\} (\d+)/g)
    expect(writes).toBeLessThanOrEqual(67)
    expect(flow.progress()).toMatchObject({ processedCount: 1000, writtenCount: 997, errorCount: 3 })
    await flow.stop()
    await client.end()
  },
  timeoutMs,
)

test(
  '[D68] a dropped table is waited for without dead letters or loss',
  async () => {
    const { from, dead, group, source, errors, client, sinkWith } = await setup(plainTable)
    const flow = startFlow({ source, errors, sink: sinkWith() })
    await fill(from, numbered(0, 500))
    await waitFor('the first rows', async () => (await rowsOf(client)).length > 0, limits)
    await client.query('alter table target rename to target_old')
    await fill(from, numbered(500, 500))
    await waitFor('the sink to be unavailable', () => flow.progress().flowing.status === 'False', limits)
    expect(['SinkUnavailable', 'Blocked']).toContain(flow.progress().flowing.reason)
    expect(await lettersOf(dead)).toEqual([])
    await client.query(plainTable)
    await waitFor('everything', async () => (await committed(group, from))[0] === 1000, limits)
    await waitFor('good news', () => flow.progress().flowing.status === 'True' && flow.progress().blocked === undefined, limits)
    const all = await client.query<{ n: number }>('select n from target_old union all select n from target order by n')
    expect(all.rows.map(({ n }) => n)).toEqual(Array.from({ length: 1000 }, (_, n) => n))
    expect(await lettersOf(dead)).toEqual([])
    await flow.stop()
    await client.end()
  },
  timeoutMs,
)

test(
  '[D95] without CREATE, exactlyOnce auto degrades and required blocks with the reason',
  async () => {
    const { from, group, source, database, client, sinkWith } = await setup(plainTable)
    const role = `writer_${database.name}`
    await client.query(`create role ${role} login password 'pw'; revoke create on schema public from public;
      grant insert, select on target to ${role}; grant usage on sequence target_at_seq to ${role}`)
    const url = database.url.replace(/\/\/[^@]*@/, `//${role}:pw@`)
    await fill(from, numbered(0, 10))
    const required = startFlow({ source, sink: sinkWith({ exactlyOnce: 'required' }, url) })
    const blocked = await waitFor('the refusal', () => required.progress().blocked, limits)
    expect(blocked).toMatchObject({ stage: 'sink', connector: 'postgresql', errorType: 'auth_error' })
    expect(blocked.message).toContain('exactlyOnce is required and the role may not create "public".brokkr_positions')
    expect(required.progress()).toMatchObject({ readCount: 0, flowing: { status: 'False', reason: 'Blocked' } })
    await required.stop()
    expect(await rowsOf(client)).toEqual([])
    expect(await committed(group, from)).toEqual({})

    const auto = startFlow({ source, sink: sinkWith({ exactlyOnce: 'auto' }, url) })
    await waitFor('everything', async () => (await committed(group, from))[0] === 10, limits)
    expect(auto.progress()).toMatchObject({
      writtenCount: 10,
      exactlyOnce: { status: 'False', reason: 'Unavailable', message: expect.stringContaining('may not create') as string },
      flowing: { status: 'True' },
    })
    expect(auto.progress().blocked).toBeUndefined()
    expect(await rowsOf(client)).toEqual(Array.from({ length: 10 }, (_, n) => n))
    expect((await auto.stop()).exitCode).toBe(0)
    await client.query(`drop owned by ${role}; drop role ${role}`)
    await client.end()
  },
  timeoutMs,
)

test(
  'the answer to a commit that is lost on its way neither loses nor doubles the batch',
  async () => {
    const { from, group, source, client, database, sinkWith } = await setup(plainTable)
    const { url, proxy } = await proxiedPostgres(database.url)
    const flow = startFlow({ source, sink: sinkWith({}, url) }, { settings: { flushMs: 5_000 } })
    await waitFor('the flow to read', () => flow.pipeline.isReady, limits)
    for (let round = 0; round < 8; round += 1) {
      // The requests of one batch arrive, some bytes of the answers do not.
      proxy.resetAfter(20 + round * 31, 'toClient')
      await fill(from, numbered(round * 20, 20))
      await waitFor('a failed try', () => flow.progress().flowing.status === 'False' || flow.progress().openMessages === 0, limits)
      proxy.heal()
      await waitFor(`round ${round}`, async () => (await committed(group, from))[0] === (round + 1) * 20, {
        ...limits,
        onTimeout: () => flow.logged.slice(-20).join(''),
      })
    }
    expect((await rowsOf(client)).toSorted((a, b) => a - b)).toEqual(Array.from({ length: 160 }, (_, n) => n))
    await flow.stop()
    await proxy.close()
    await client.end()
  },
  timeoutMs,
)
