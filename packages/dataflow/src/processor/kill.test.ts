// The processor as a process, killed without warning: nothing is lost, and nothing is written twice where that is promised.

import { callServers } from '@brokkr/testing/servers/owner/client.ts'
import { emptyDatabase } from '@brokkr/testing/servers/postgres.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import type pg from 'pg'
import { expect, test } from 'vitest'
import { committed, drain, fill } from '../connectors/test-parts/kafka-topics.ts'
import { kafkaSetup } from './test-parts/kafka-setup.ts'
import { type RealProcessor, startProcessor } from './test-parts/real-flow.ts'

const limits = { limitMs: 600_000 }
const timeoutMs = 3_600_000
const kills = size('processor.kills')
const messages = size('processor.messages')
const numbered = (from: number, count: number) =>
  Array.from({ length: count }, (_, at) => ({ key: String(from + at), value: JSON.stringify({ id: from + at, pad: 'x'.repeat(100) }) }))

async function fillAll(topic: string, count: number): Promise<void> {
  for (let at = 0; at < count; at += 20_000) await fill(topic, numbered(at, Math.min(20_000, count - at)))
}

interface Rows {
  readonly all: number
  readonly distinct: number
}
const rowsOf = async (client: pg.Client): Promise<Rows> => {
  const { rows } = await client.query<{ all: string; distinct: string }>(
    'select count(*) as all, count(distinct id) as distinct from target',
  )
  return { all: Number(rows[0]!.all), distinct: Number(rows[0]!.distinct) }
}

/** Starts it, waits for progress beyond what was there, kills it; so often. Then lets it run to its end. */
async function killed(
  start: () => Promise<RealProcessor>,
  options: { times: number; progress(): Promise<number>; step: number; all: number },
): Promise<void> {
  for (let kill = 0; kill < options.times; kill += 1) {
    const before = await options.progress()
    const processor = await start()
    await waitFor('progress before a kill', async () => (await options.progress()) >= Math.min(before + options.step, options.all), {
      ...limits,
      onTimeout: () => processor.logTail(20),
    })
    await processor.kill('SIGKILL')
  }
}

test.each([
  ['exactly once', { exactlyOnce: 'required' }, 'create table target (id int, pad text)'],
  ['at least once', { exactlyOnce: 'off' }, 'create table target (id int, pad text)'],
  ['upserts', { exactlyOnce: 'off', upsertMode: true }, 'create table target (id int primary key, pad text)'],
] as const)(
  '[D64] a kill between sink commit and source commit keeps the guarantee: %s',
  async (name, config, table) => {
    const { from, group, source } = await kafkaSetup({ partitions: 3 })
    const database = await emptyDatabase()
    const client = await database.connect()
    await client.query(table)
    // Slow enough to be killed in the middle.
    await client.query(`create sequence writes; create function wait() returns trigger language plpgsql
      as $$ begin perform nextval('writes'), pg_sleep(0.03); return null; end $$;
      create trigger wait after insert on target for each statement execute function wait()`)
    const count = 3_000
    await fillAll(from, count)
    const spec = {
      source,
      sink: { type: 'postgresql', config: { connectionString: database.url, table: 'target', batchSize: 50, ...config } },
    }
    const folder = await callServers('loan.folder', { kind: 'plain' })
    // The source is told nothing before the end: every kill lies between the two commits.
    const env = { PROCESSOR_COMMIT_SECONDS: '3600' }
    const start = () => startProcessor(spec, { folder, env })
    const isExact = name === 'exactly once'
    const writes = async () => Number((await client.query<{ n: string }>('select last_value as n from writes')).rows[0]!.n)
    await killed(start, {
      times: kills,
      // Upserts of rows that are there add none; written again they are.
      progress: name === 'upserts' ? writes : async () => (await rowsOf(client)).all,
      step: isExact ? 100 : 1,
      // Rows that are written over are no more rows; without a key each start adds some.
      all: name === 'at least once' ? Number.POSITIVE_INFINITY : count,
    })
    expect(await committed(group, from)).toEqual({})
    const last = await startProcessor(spec, { folder, args: ['--bounded', '--checkpoint-file', `${folder}/checkpoint.json`], env })
    expect((await last.exited).code).toBe(0)
    const { all, distinct } = await rowsOf(client)
    expect(distinct).toBe(count)
    if (name === 'at least once') expect(all).toBeGreaterThan(count)
    else expect(all).toBe(count)
    expect(Object.values(await committed(group, from)).reduce((sum, offset) => sum + offset, 0)).toBe(count)
    await client.end()
  },
  timeoutMs,
)

test(
  '[D89] a repeatedly killed transactional flow writes each message once',
  async () => {
    const { from, to, group, source, kafkaSink } = await kafkaSetup({ partitions: 3 })
    await fillAll(from, messages)
    const spec = { source, sink: kafkaSink(to, { exactlyOnce: 'required', batchSize: 500 }), transformations: [{ type: 'timestamp' }] }
    const folder = await callServers('loan.folder', { kind: 'plain' })
    const progress = async () => Object.values(await committed(group, from)).reduce((sum, offset) => sum + offset, 0)
    const start = () => startProcessor(spec, { folder })
    await killed(start, { times: kills, progress, step: Math.floor(messages / (kills + 4)), all: messages })
    const last = await start()
    await waitFor('everything', async () => (await progress()) >= messages, { ...limits, onTimeout: () => last.logTail(20) })
    expect(await last.stop()).toBe(0)
    const seen = (await drain(to)).map(({ key }) => Number(key))
    expect(seen.length).toBe(messages)
    expect(new Set(seen).size).toBe(messages)
  },
  timeoutMs,
)
