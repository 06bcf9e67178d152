import type { JsonObject } from '@brokkr/contract/dataflow/json.ts'
import { emptyDatabase, privatePostgres, type TestDatabase } from '@brokkr/testing/postgres.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import type pg from 'pg'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { compareCdc } from './cdc-state.ts'
import type { Budget, Message, Source, SourceContext } from './connector.ts'
import { parseLsn } from './pgoutput.ts'
import { postgresqlSink } from './postgresql.ts'
import { postgresqlCdcSource, removeSlot } from './postgresql-cdc.ts'
import { sinkConfig, sourceConfig } from './test-parts/configs.ts'
import { endlessBudget, nothingSeen, type Seen, sinkContext, sourceContext } from './test-parts/contexts.ts'

const longMs = 180_000
let database: TestDatabase
let admin: pg.Client
let slotName: string
beforeEach(async () => {
  database = await emptyDatabase()
  admin = await database.connect()
  slotName = `slot_${database.name}`
})
afterEach(async () => {
  // A slot would keep the server's log and the database.
  await waitFor('the slot to be free', async () => {
    await admin.query(`select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = $1 and active`, [slotName])
    return admin.query(`select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = $1`, [slotName]).then(
      () => true,
      () => false,
    )
  })
  await admin.end()
})

type Flow = {
  source: Source
  read: Message[]
  seen: Seen
  saved: () => JsonObject | undefined
  stop: () => Promise<void>
  kill: () => Promise<void>
  done: Promise<unknown>
}

/** Reads in the background, as a flow does; `kill` ends it as a killed process would: without a word to anybody. */
async function follow(config: object, context: Partial<SourceContext> = {}, budget: Budget = endlessBudget): Promise<Flow> {
  const stopping = new AbortController()
  const seen = nothingSeen()
  let saved: JsonObject | undefined = context.stored
  const full = sourceContext({ signal: stopping.signal, ...context }, seen)
  const source: Source = postgresqlCdcSource.open(
    sourceConfig('postgresql-cdc', {
      connectionString: database.url,
      slotName,
      publicationName: `pub_${slotName}`,
      heartbeatIntervalSeconds: 1,
      ...config,
    }),
    { ...full, stateChanged: () => void (saved = source.state()) },
  )
  await source.connect()
  const read: Message[] = []
  const done = (async () => {
    for await (const { messages } of source.read(budget)) read.push(...messages)
  })()
  // Expected where a test looks at it; where it does not, a wait that ends in vain says why.
  done.catch((error: unknown) => seen.notices.push(`failed: ${String(error)}`))
  const stop = async () => {
    stopping.abort()
    await done.catch(() => undefined)
    await source.close()
  }
  const kill = async () => {
    await admin.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'brokkr/test/flow' and datname = current_database()`,
    )
    await done.catch(() => undefined)
    await stop()
  }
  onTestFinished(stop)
  return { source, read, seen, saved: () => saved, stop, kill, done }
}

/** What the flow failed with, and what the server is doing. */
async function explain(flow: Flow): Promise<string> {
  const busy = await admin.query(
    `select datname, state, wait_event, backend_xid, age(backend_xmin), xact_start, left(query, 100) as query from pg_stat_activity where state is not null`,
  )
  return `${flow.seen.notices.join()}\n${busy.rows.map((row) => JSON.stringify(row)).join('\n')}`
}

const streaming = (flow: Flow) =>
  waitFor(
    'the stream',
    async () =>
      (
        await admin.query(
          `select 1 from pg_stat_replication where pid in (select active_pid from pg_replication_slots where slot_name = $1)`,
          [slotName],
        )
      ).rows.length === 1,
    { onTimeout: () => explain(flow) },
  )
const upTo = (message: Message) => new Map([['slot', message.position]])
const payloads = (messages: readonly Message[]) =>
  messages.map(({ raw }) => JSON.parse(Buffer.from(raw!).toString()) as Record<string, unknown>)
const confirmed = async () =>
  parseLsn(
    (await admin.query<{ at: string }>(`select confirmed_flush_lsn::text as at from pg_replication_slots where slot_name = $1`, [slotName]))
      .rows[0]!.at,
  )
const walEnd = async () => parseLsn((await admin.query<{ at: string }>('select pg_current_wal_lsn()::text as at')).rows[0]!.at)

describe('snapshot and stream', () => {
  test('the snapshot begins where the slot does: nothing twice, nothing missing, in order', { timeout: longMs }, async () => {
    await admin.query(`create table t (id int primary key, a text); insert into t select i, 'old' from generate_series(1, 2500) i`)
    const flow = await follow({ tables: ['t'] })
    await waitFor('the snapshot', () => flow.read.length === 2500)
    await admin.query(`insert into t values (3000, 'new'); update t set a = 'changed' where id = 1; delete from t where id = 2`)
    await waitFor('the changes', () => flow.read.length === 2503)
    expect(flow.read[0]?.metadata).toEqual({
      schema: 'public',
      table: 't',
      id: 1,
      operation: 'insert',
      lsn: expect.stringMatching(/^[0-9A-F]+\/[0-9A-F]+$/) as string,
      snapshot: true,
    })
    expect(payloads(flow.read.slice(2500))).toEqual([{ id: 3000, a: 'new' }, { id: 1, a: 'changed' }, { id: 2 }])
    expect(flow.read.slice(2500).map(({ metadata }) => metadata['operation'])).toEqual(['insert', 'update', 'delete'])
    expect(flow.read.at(-1)?.metadata).toMatchObject({
      id: 2,
      xid: expect.any(Number) as number,
      commit_time: expect.stringMatching(/Z$/) as string,
    })
    expect(String(flow.read.at(-1)?.key)).toBe('2')
    for (let index = 1; index < flow.read.length; index += 1)
      expect(compareCdc(flow.read[index - 1]!.position, flow.read[index]!.position)).toBeLessThan(0)
    expect(flow.source.state()).toMatchObject({ phase: 'snapshot', snapshotCompletedTables: [] })
    await flow.source.commit(upTo(flow.read.at(-1)!))
    expect(flow.source.state()).toMatchObject({ phase: 'streaming', snapshotCompletedTables: ['public.t'], slotName })
    expect(flow.saved()).toMatchObject({ phase: 'streaming' })
  })

  test('tables without rows, a mode without snapshot, a bounded run, the envelope', { timeout: longMs }, async () => {
    await admin.query(`create table e (id int primary key); create table t (id int primary key, n numeric); insert into t values (1, 1.50)`)
    const bounded = await follow({ tables: ['e', 't'], envelopeFormat: 'debezium' }, { isBounded: true })
    await bounded.done
    expect(payloads(bounded.read)).toMatchObject([
      { payload: { op: 'r', before: null, after: { id: 1, n: 1.5 }, source: { table: 't', snapshot: 'true' } } },
    ])
    expect(String(bounded.read[0]?.raw)).toContain('"n":1.50')
    await bounded.source.commit(upTo(bounded.read[0]!))
    await bounded.stop()
    await admin.query('insert into t values (2, 2)')
    const again = await follow({ tables: ['e', 't'] }, { isBounded: true, stored: bounded.source.state() as JsonObject })
    await again.done
    expect(payloads(again.read)).toEqual([{ id: 2, n: 2 }])
    await again.stop()
    await removeSlot(sourceConfig('postgresql-cdc', { connectionString: database.url, tables: ['t'], slotName }), sourceContext())
    const never = await follow({ tables: ['t'], snapshotMode: 'never' }, { isBounded: true })
    await never.done
    expect(never.read).toEqual([])
    expect(never.source.state()).toMatchObject({ phase: 'streaming' })
  })
})

test('[D96] with a blocked sink the slot stays before the unwritten row however much other tables write; when nothing is open it moves to the end of the log', {
  timeout: longMs,
}, async () => {
  await admin.query('create table t (id int primary key); create table other (x text)')
  const flow = await follow({ tables: ['t'] })
  await streaming(flow)
  await admin.query('insert into t values (1)')
  await waitFor('the row', () => flow.read.length === 1)
  const row = parseLsn(flow.read[0]!.metadata['lsn'] as string)
  for (let round = 0; round < 4; round += 1) {
    await admin.query(`insert into other select repeat('x', 1000) from generate_series(1, 500)`)
    // As long as it takes for a status to go out and be seen.
    const sent = (
      await admin.query<{ t: string }>(
        `select reply_time::text as t from pg_stat_replication where application_name = 'brokkr/test/flow' and pid in (select active_pid from pg_replication_slots where slot_name = $1)`,
        [slotName],
      )
    ).rows[0]?.t
    await waitFor(
      'another status',
      async () =>
        (
          await admin.query<{ t: string }>(
            `select reply_time::text as t from pg_stat_replication where application_name = 'brokkr/test/flow' and pid in (select active_pid from pg_replication_slots where slot_name = $1)`,
            [slotName],
          )
        ).rows[0]?.t !== sent,
    )
    expect(await confirmed()).toBeLessThanOrEqual(row)
  }
  await flow.source.commit(upTo(flow.read[0]!))
  const end = await walEnd()
  await waitFor('the slot at the end of the log', async () => (await confirmed()) >= end)
})

test('[D97] of two transactions whose commit records touch only the first has ended: after a kill the second is delivered, and the first is not', {
  timeout: longMs,
}, async () => {
  await admin.query('create table t (id int primary key)')
  const flow = await follow({ tables: ['t'] })
  await streaming(flow)
  const [one, two] = [await database.connect(), await database.connect()]
  onTestFinished(async () => {
    await one.end()
    await two.end()
  })
  let pair: [Message, Message] | undefined
  // Until nothing lies between the two: others write to the log, too.
  for (let id = 0; pair === undefined; id += 2) {
    for (const [client, row] of [
      [one, id],
      [two, id + 1],
    ] as const)
      await client.query('begin').then(() => client.query('insert into t values ($1)', [row]))
    await Promise.all([one.query('commit'), two.query('commit')])
    await waitFor('both rows', () => flow.read.length === id + 2)
    const [a, b] = [flow.read.at(-2)!, flow.read.at(-1)!]
    const [la, lb] = [a, b].map(({ position }) => parseLsn((position as { l: string }).l)) as [bigint, bigint]
    if (lb - la <= 64n) pair = [a, b]
    else await flow.source.commit(upTo(b))
  }
  await flow.source.commit(upTo(pair[0]))
  const told = parseLsn((flow.source.state() as { lastAckedLSN: string }).lastAckedLSN)
  await waitFor('the slot to know', async () => (await confirmed()) === told)
  await flow.kill()
  const next = await follow({ tables: ['t'] }, { stored: flow.source.state() as JsonObject })
  await waitFor('the second', () => next.read.length > 0)
  expect(payloads(next.read)).toEqual(payloads([pair[1]]))
})

test('[D98] a large transaction streams within the budget, and a kill in its middle loses nothing', { timeout: longMs }, async () => {
  const total = size('D98.rows')
  await admin.query('create table t (id int primary key, a text)')
  const limit = 1 << 20
  const bytesOpen = { now: 0, most: 0, largest: 0 }
  const isSpent = () => bytesOpen.now >= limit
  let wake: () => void = () => undefined
  const budget: Budget = {
    get isSpent() {
      return isSpent()
    },
    room: async () => {
      while (isSpent()) await new Promise<void>((resolve) => (wake = resolve))
    },
  }
  const slow = async (flow: { source: Source }, enough: number, read: Message[]) => {
    for await (const { messages } of flow.source.read(budget)) {
      const bytes = messages.reduce((sum, message) => sum + message.bytes + 256, 0)
      bytesOpen.now += bytes
      bytesOpen.largest = Math.max(bytesOpen.largest, bytes)
      bytesOpen.most = Math.max(bytesOpen.most, bytesOpen.now)
      read.push(...messages)
      setImmediate(() => {
        bytesOpen.now -= bytes
        wake()
      })
      if (read.length >= enough) break
    }
  }
  const open1 = async (stored?: JsonObject) => {
    const source = postgresqlCdcSource.open(
      sourceConfig('postgresql-cdc', { connectionString: database.url, slotName, publicationName: `pub_${slotName}`, tables: ['t'] }),
      sourceContext({ stored }),
    )
    onTestFinished(() => source.close())
    await source.connect()
    return { source }
  }
  const begin = await follow({ tables: ['t'], snapshotMode: 'never' }, { isBounded: true })
  await begin.done
  await begin.stop()
  await admin.query(`insert into t select i, repeat('x', 200) from generate_series(1, ${total}) i`)
  const first = await open1(begin.source.state())
  const half: Message[] = []
  await slow(first, total / 2, half)
  await first.source.commit(upTo(half[100]!))
  const state = first.source.state() as JsonObject
  await admin.query(`select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = $1 and active`, [slotName])
  await first.source.close()
  const second = await open1(state)
  const rest: Message[] = []
  await slow(second, total, rest)
  expect(new Set(payloads(rest).map(({ id }) => id)).size).toBe(total)
  expect(bytesOpen.largest).toBeLessThan(limit)
  expect(bytesOpen.most).toBeLessThanOrEqual(limit + bytesOpen.largest)
})

test('[D99] a snapshot among writers, killed in its middle and started again: the copy equals the table', { timeout: longMs }, async () => {
  await admin.query(`create table t (id int primary key, v int, a text); create table u (id int primary key, v int, a text)`)
  for (const table of ['t', 'u']) await admin.query(`insert into ${table} select i, 0, repeat('x', 50) from generate_series(1, 6000) i`)
  const target = await emptyDatabase()
  const copy = await target.connect()
  onTestFinished(() => copy.end())
  const sinks = new Map(
    await Promise.all(
      ['t', 'u'].map(async (table) => {
        await copy.query(`create table ${table} (id int primary key, v int, a text)`)
        const sink = postgresqlSink.open(
          sinkConfig('postgresql', { connectionString: target.url, table, upsertMode: true, exactlyOnce: 'off' }),
          sinkContext(),
        )
        onTestFinished(() => sink.close())
        await sink.connect()
        return [table, sink] as const
      }),
    ),
  )
  const writer = await database.connect()
  onTestFinished(() => writer.end())
  const writes = new AbortController()
  const writing = (async () => {
    for (let round = 1; !writes.signal.aborted; round += 1) {
      const id = 1 + ((round * 7919) % 6000)
      await writer.query(
        `update t set v = ${round} where id = ${id}; delete from u where id = ${id}; insert into u values (${6000 + round}, ${round}, 'new'); update t set id = -${round} where id = ${(id % 6000) + 1}`,
      )
    }
  })()
  let stored: JsonObject | undefined
  for (const stopAfter of [1_500, 7_500, 9_000]) {
    // Each life writes a while and dies; what it has saved is what the next one knows.
    const flow = await life(stored, (count) => count >= stopAfter)
    stored = flow
  }
  writes.abort()
  await writing
  const end = await walEnd()
  await life(stored, (_count, state) => state['phase'] === 'streaming' && parseLsn(state['lastAckedLSN'] as string) >= end)
  for (const table of ['t', 'u']) {
    const all = `select id, v, a from ${table} order by id`
    expect((await copy.query(all)).rows).toEqual((await admin.query(all)).rows)
  }

  async function life(
    from: JsonObject | undefined,
    isOver: (count: number, state: JsonObject) => boolean,
  ): Promise<JsonObject | undefined> {
    let saved = from
    const source: Source = postgresqlCdcSource.open(
      sourceConfig('postgresql-cdc', {
        connectionString: database.url,
        slotName,
        publicationName: `pub_${slotName}`,
        tables: ['t', 'u'],
        heartbeatIntervalSeconds: 1,
      }),
      { ...sourceContext({ stored: from }), stateChanged: () => void (saved = source.state()) },
    )
    await source.connect()
    let count = 0
    const over = new AbortController()
    const check = setInterval(() => isOver(0, source.state() ?? {}) && over.abort(), 50)
    for await (const { messages } of raced(source, over.signal)) {
      for (const [table, sink] of sinks) {
        const mine = messages.filter(({ metadata }) => metadata['table'] === table)
        if (mine.length > 0) await sink.write(mine, new Map())
      }
      count += messages.length
      await source.commit(upTo(messages.at(-1)!))
      if (isOver(count, source.state() ?? {})) break
    }
    clearInterval(check)
    await admin.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'brokkr/test/flow' and datname = current_database()`,
    )
    await source.close()
    return saved
  }
})

/** Batches until the signal is aborted. */
async function* raced(source: Source, signal: AbortSignal) {
  const iterator = source.read(endlessBudget)[Symbol.asyncIterator]()
  const aborted = new Promise<{ done: true; value: undefined }>((resolve) =>
    signal.addEventListener('abort', () => resolve({ done: true, value: undefined })),
  )
  for (;;) {
    const next = iterator.next()
    next.catch(() => undefined)
    const result = await Promise.race([next, aborted])
    if (result.done === true) return
    yield result.value
  }
}

test('[D100] unchanged TOAST, both identities, microseconds and TRUNCATE', { timeout: longMs }, async () => {
  await admin.query(`create table d (id int primary key, big text, at timestamptz, n int); alter table d alter big set storage external`)
  await admin.query(
    `create table f (id int primary key, big text, at timestamptz, n int); alter table f alter big set storage external; alter table f replica identity full`,
  )
  const flow = await follow({ tables: ['d', 'f'] })
  await streaming(flow)
  for (const table of ['d', 'f']) {
    await admin.query(`insert into ${table} values (1, repeat('x', 10000), '2026-01-02 03:04:05.123456Z', 0)`)
    await admin.query(`update ${table} set n = 1`)
    await admin.query(`update ${table} set id = 2`)
    await admin.query(`delete from ${table}`)
  }
  await admin.query('truncate d, f')
  await waitFor('all changes', () => flow.read.length === 10 && flow.seen.dropped === 2)
  const big = 'x'.repeat(10_000)
  const at = '2026-01-02T03:04:05.123456Z'
  expect(payloads(flow.read)).toEqual([
    { id: 1, big, at, n: 0 },
    { id: 1, at, n: 1 },
    { id: 1 },
    { id: 2, at, n: 1 },
    { id: 2 },
    { id: 1, big, at, n: 0 },
    { id: 1, big, at, n: 1 },
    { id: 1, big, at, n: 1 },
    { id: 2, big, at, n: 1 },
    { id: 2, big, at, n: 1 },
  ])
  expect(flow.read.map(({ metadata }) => metadata['operation'])).toEqual([
    'insert',
    'update',
    'delete',
    'insert',
    'delete',
    'insert',
    'update',
    'delete',
    'insert',
    'delete',
  ])
  expect(flow.read.map(({ metadata }) => metadata['unchanged'])).toEqual([
    undefined,
    ['big'],
    undefined,
    ['big'],
    undefined,
    undefined,
    undefined,
    undefined,
    undefined,
    undefined,
  ])
  expect(flow.read.map(({ metadata }) => metadata['id'])).toEqual([1, 1, 1, 2, 2, 1, 1, 1, 2, 2])
  // An upsert of such a row does not wipe what it does not know.
  const target = await emptyDatabase()
  const copy = await target.connect()
  onTestFinished(() => copy.end())
  await copy.query('create table d (id int primary key, big text, at timestamptz, n int)')
  const sink = postgresqlSink.open(sinkConfig('postgresql', { connectionString: target.url, table: 'd', upsertMode: true }), sinkContext())
  onTestFinished(() => sink.close())
  await sink.connect()
  await sink.write(flow.read.slice(0, 1), new Map())
  await sink.write(flow.read.slice(1, 2), new Map())
  expect((await copy.query('select big = $1 as kept, n from d', [big])).rows).toEqual([{ kept: true, n: 1 }])
})

describe('what the server must have, and what an operator is told', () => {
  test('missing tables, slots and publications are matters of configuration', { timeout: longMs }, async () => {
    await expect(follow({ tables: ['none'] })).rejects.toMatchObject({ class: 'config', message: 'table none does not exist' })
    await admin.query('create table t (id int primary key)')
    await expect(follow({ tables: ['t'], createPublicationIfNotExists: false })).rejects.toMatchObject({ class: 'config' })
    const flow = await follow({ tables: ['t'], createSlotIfNotExists: false })
    await expect(flow.done).rejects.toMatchObject({
      class: 'config',
      message: expect.stringContaining('createSlotIfNotExists is off') as string,
    })
  })

  test('a server without wal_level logical is told apart', { timeout: longMs }, async () => {
    const plain = await privatePostgres({ logicalReplication: false })
    onTestFinished(() => plain.stop())
    const own = await plain.database()
    const source = postgresqlCdcSource.open(sourceConfig('postgresql-cdc', { connectionString: own.url, tables: ['t'] }), sourceContext())
    await expect(source.connect()).rejects.toMatchObject({
      class: 'config',
      message: expect.stringContaining('wal_level = logical') as string,
    })
  })

  test('a slot in use is waited for; one that was dropped is told and a new snapshot begins', { timeout: longMs }, async () => {
    await admin.query(`create table t (id int primary key); insert into t values (1)`)
    const first = await follow({ tables: ['t'] })
    await waitFor('the row', () => first.read.length === 1)
    await first.source.commit(upTo(first.read[0]!))
    await streaming(first)
    const second = await follow({ tables: ['t'] }, { stored: first.source.state() as JsonObject })
    await expect(second.done).rejects.toMatchObject({ class: 'transient' })
    const state = first.source.state() as JsonObject
    await first.stop()
    await waitFor('the slot to be free', () =>
      admin.query('select pg_drop_replication_slot($1)', [slotName]).then(
        () => true,
        () => false,
      ),
    )
    const third = await follow({ tables: ['t'] }, { stored: state })
    await waitFor('the new snapshot', () => third.read.length === 1)
    expect(third.seen.notices.join()).toMatch(/^SlotGone: /)
    expect(compareCdc(first.read[0]!.position, third.read[0]!.position)).toBeLessThan(0)
  })

  test('the lag in bytes, a warning once per happening, rewinds within what the slot knows', { timeout: longMs }, async () => {
    await admin.query(`create table t (id int primary key); insert into t values (1)`)
    const flow = await follow({ tables: ['t'], slotLagWarningBytes: '1' })
    await waitFor('the row', () => flow.read.length === 1, { onTimeout: () => explain(flow) })
    await admin.query(`create table filler as select repeat('x', 1000) as x from generate_series(1, 100)`)
    expect((await flow.source.lag()).bytes).toBeGreaterThan(50_000)
    await flow.source.lag()
    expect(flow.seen.notices).toHaveLength(1)
    expect(flow.seen.notices[0]).toMatch(/^SlotLag: slot slot_/)
    await flow.stop()
    await flow.source.connect()
    await expect(flow.source.rewind({ lsn: '0/1' })).rejects.toMatchObject({
      class: 'config',
      message: expect.stringMatching(/the slot begins at [0-9A-F]+\//) as string,
    })
    await expect(flow.source.rewind('latest')).rejects.toMatchObject({ class: 'config' })
    await flow.source.rewind({ resnapshot: ['t'] })
    expect(flow.source.state()).toMatchObject({ phase: 'snapshot', snapshotCompletedTables: [] })
    await flow.source.close()
  })

  test('the preview reads rows and leaves neither slot nor publication', { timeout: longMs }, async () => {
    await admin.query(
      `create table t (id int primary key, at timestamptz); insert into t select i, '2026-01-02 03:04:05.5Z' from generate_series(1, 9) i`,
    )
    const found = await postgresqlCdcSource.sample(
      sourceConfig('postgresql-cdc', { connectionString: database.url, tables: ['t'], slotName }),
      sourceContext(),
      2,
    )
    expect(payloads(found)).toEqual([
      { id: 1, at: '2026-01-02T03:04:05.5Z' },
      { id: 2, at: '2026-01-02T03:04:05.5Z' },
    ])
    expect(
      (await admin.query('select 1 from pg_replication_slots where database = current_database() union all select 1 from pg_publication'))
        .rows,
    ).toEqual([])
  })
})
