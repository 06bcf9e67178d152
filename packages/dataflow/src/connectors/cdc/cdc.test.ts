import type { JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import { emptyDatabase, privatePostgres } from '@brokkr/testing/servers/postgres.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Budget, Message, Source } from '../connector.ts'
import { postgresqlSink } from '../postgresql/index.ts'
import { payloads, upTo, useCdcWorld } from '../test-parts/cdc-flow.ts'
import { sinkConfig, sourceConfig } from '../test-parts/configs.ts'
import { endlessBudget, sinkContext, sourceContext } from '../test-parts/contexts.ts'
import { postgresqlCdcSource, removeSlot } from './index.ts'
import { parseLsn } from './pgoutput.ts'
import { compareCdcPositions } from './state.ts'

const longMs = 180_000
const cdc = useCdcWorld()

describe('snapshot and stream', () => {
  test('snapshot and stream deliver every row once and in order', { timeout: longMs }, async () => {
    await cdc.admin.query(`create table t (id int primary key, a text); insert into t select i, 'old' from generate_series(1, 2500) i`)
    const flow = await cdc.follow({ tables: ['t'] })
    await waitFor('the snapshot', () => flow.read.length === 2500)
    await cdc.admin.query(`insert into t values (3000, 'new'); update t set a = 'changed' where id = 1; delete from t where id = 2`)
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
      expect(compareCdcPositions(flow.read[index - 1]!.position, flow.read[index]!.position)).toBeLessThan(0)
    expect(flow.source.state()).toMatchObject({ phase: 'snapshot', snapshotCompletedTables: [] })
    await flow.source.commit(upTo(flow.read.at(-1)!))
    expect(flow.source.state()).toMatchObject({ phase: 'streaming', snapshotCompletedTables: ['public.t'], slotName: cdc.slotName })
    expect(flow.saved()).toMatchObject({ phase: 'streaming' })
  })

  test('empty tables, snapshotMode never, bounded runs and envelopes work', { timeout: longMs }, async () => {
    await cdc.admin.query(
      `create table e (id int primary key); create table t (id int primary key, n numeric); insert into t values (1, 1.50)`,
    )
    const bounded = await cdc.follow({ tables: ['e', 't'], envelopeFormat: 'debezium' }, { isBounded: true })
    await bounded.done
    expect(payloads(bounded.read)).toMatchObject([
      { payload: { op: 'r', before: null, after: { id: 1, n: 1.5 }, source: { table: 't', snapshot: 'true' } } },
    ])
    expect(String(bounded.read[0]?.raw)).toContain('"n":1.50')
    await bounded.source.commit(upTo(bounded.read[0]!))
    await bounded.stop()
    await cdc.admin.query('insert into t values (2, 2)')
    const again = await cdc.follow({ tables: ['e', 't'] }, { isBounded: true, stored: bounded.source.state() as JsonObject })
    await again.done
    expect(payloads(again.read)).toEqual([{ id: 2, n: 2 }])
    await again.stop()
    await removeSlot(
      sourceConfig('postgresql-cdc', { connectionString: cdc.database.url, tables: ['t'], slotName: cdc.slotName }),
      sourceContext(),
    )
    const never = await cdc.follow({ tables: ['t'], snapshotMode: 'never' }, { isBounded: true })
    await never.done
    expect(never.read).toEqual([])
    expect(never.source.state()).toMatchObject({ phase: 'streaming' })
  })
})

test('[D96] the slot stays before an unwritten row and moves to the WAL end when idle', {
  timeout: longMs,
}, async () => {
  await cdc.admin.query('create table t (id int primary key); create table other (x text)')
  const flow = await cdc.follow({ tables: ['t'] })
  await cdc.streaming(flow)
  await cdc.admin.query('insert into t values (1)')
  await waitFor('the row', () => flow.read.length === 1)
  const row = parseLsn(flow.read[0]!.metadata['lsn'] as string)
  for (let round = 0; round < 4; round += 1) {
    await cdc.admin.query(`insert into other select repeat('x', 1000) from generate_series(1, 500)`)
    // As long as it takes for a status to go out and be seen.
    const sent = (
      await cdc.admin.query<{ t: string }>(
        `select reply_time::text as t from pg_stat_replication where application_name = 'brokkr/test/flow' and pid in (select active_pid from pg_replication_slots where slot_name = $1)`,
        [cdc.slotName],
      )
    ).rows[0]?.t
    await waitFor(
      'another status',
      async () =>
        (
          await cdc.admin.query<{ t: string }>(
            `select reply_time::text as t from pg_stat_replication where application_name = 'brokkr/test/flow' and pid in (select active_pid from pg_replication_slots where slot_name = $1)`,
            [cdc.slotName],
          )
        ).rows[0]?.t !== sent,
    )
    expect(await cdc.confirmed()).toBeLessThanOrEqual(row)
  }
  await flow.source.commit(upTo(flow.read[0]!))
  const end = await cdc.walEnd()
  await waitFor('the slot at the end of the log', async () => (await cdc.confirmed()) >= end)
})

test('[D97] after a kill only the unfinished one of two adjacent transactions is repeated', {
  timeout: longMs,
}, async () => {
  await cdc.admin.query('create table t (id int primary key)')
  const flow = await cdc.follow({ tables: ['t'] })
  await cdc.streaming(flow)
  const [one, two] = [await cdc.database.connect(), await cdc.database.connect()]
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
  await waitFor('the slot to know', async () => (await cdc.confirmed()) === told)
  await flow.kill()
  const next = await cdc.follow({ tables: ['t'] }, { stored: flow.source.state() as JsonObject })
  await waitFor('the second', () => next.read.length > 0)
  expect(payloads(next.read)).toEqual(payloads([pair[1]]))
})

test('[D98] a large transaction streams within the budget; a kill loses no row', { timeout: longMs }, async () => {
  const total = size('D98.rows')
  await cdc.admin.query('create table t (id int primary key, a text)')
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
      sourceConfig('postgresql-cdc', {
        connectionString: cdc.database.url,
        slotName: cdc.slotName,
        publicationName: `pub_${cdc.slotName}`,
        tables: ['t'],
      }),
      sourceContext({ stored }),
    )
    onTestFinished(() => source.close())
    await source.connect()
    return { source }
  }
  const begin = await cdc.follow({ tables: ['t'], snapshotMode: 'never' }, { isBounded: true })
  await begin.done
  await begin.stop()
  await cdc.admin.query(`insert into t select i, repeat('x', 200) from generate_series(1, ${total}) i`)
  const first = await open1(begin.source.state())
  const half: Message[] = []
  await slow(first, total / 2, half)
  await first.source.commit(upTo(half[100]!))
  const state = first.source.state() as JsonObject
  await cdc.admin.query(`select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = $1 and active`, [cdc.slotName])
  await first.source.close()
  const second = await open1(state)
  const rest: Message[] = []
  await slow(second, total, rest)
  expect(new Set(payloads(rest).map(({ id }) => id)).size).toBe(total)
  expect(bytesOpen.largest).toBeLessThan(limit)
  expect(bytesOpen.most).toBeLessThanOrEqual(limit + bytesOpen.largest)
})

test('[D99] a snapshot killed among writers resumes and equals the table', { timeout: longMs }, async () => {
  await cdc.admin.query(`create table t (id int primary key, v int, a text); create table u (id int primary key, v int, a text)`)
  for (const table of ['t', 'u']) await cdc.admin.query(`insert into ${table} select i, 0, repeat('x', 50) from generate_series(1, 6000) i`)
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
  const writer = await cdc.database.connect()
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
  const end = await cdc.walEnd()
  await life(stored, (_count, state) => state['phase'] === 'streaming' && parseLsn(state['lastAckedLSN'] as string) >= end)
  for (const table of ['t', 'u']) {
    const all = `select id, v, a from ${table} order by id`
    expect((await copy.query(all)).rows).toEqual((await cdc.admin.query(all)).rows)
  }

  async function life(
    from: JsonObject | undefined,
    isOver: (count: number, state: JsonObject) => boolean,
  ): Promise<JsonObject | undefined> {
    let saved = from
    const source: Source = postgresqlCdcSource.open(
      sourceConfig('postgresql-cdc', {
        connectionString: cdc.database.url,
        slotName: cdc.slotName,
        publicationName: `pub_${cdc.slotName}`,
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
    await cdc.admin.query(
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

test('[D100] TOAST, replica identities, microseconds and TRUNCATE are captured', { timeout: longMs }, async () => {
  await cdc.admin.query(
    `create table d (id int primary key, big text, at timestamptz, n int); alter table d alter big set storage external`,
  )
  await cdc.admin.query(
    `create table f (id int primary key, big text, at timestamptz, n int); alter table f alter big set storage external; alter table f replica identity full`,
  )
  const flow = await cdc.follow({ tables: ['d', 'f'] })
  await cdc.streaming(flow)
  for (const table of ['d', 'f']) {
    await cdc.admin.query(`insert into ${table} values (1, repeat('x', 10000), '2026-01-02 03:04:05.123456Z', 0)`)
    await cdc.admin.query(`update ${table} set n = 1`)
    await cdc.admin.query(`update ${table} set id = 2`)
    await cdc.admin.query(`delete from ${table}`)
  }
  await cdc.admin.query('truncate d, f')
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

describe('server requirements and notices', () => {
  test('missing tables, slots and publications are class config', { timeout: longMs }, async () => {
    await expect(cdc.follow({ tables: ['none'] })).rejects.toMatchObject({ class: 'config', message: 'table none does not exist' })
    await cdc.admin.query('create table t (id int primary key)')
    await expect(cdc.follow({ tables: ['t'], createPublicationIfNotExists: false })).rejects.toMatchObject({ class: 'config' })
    const flow = await cdc.follow({ tables: ['t'], createSlotIfNotExists: false })
    await expect(flow.done).rejects.toMatchObject({
      class: 'config',
      message: expect.stringContaining('createSlotIfNotExists is off') as string,
    })
  })

  test('a server without wal_level logical is rejected', { timeout: longMs }, async () => {
    const plain = await privatePostgres({ logicalReplication: false })
    onTestFinished(() => plain.stop())
    const own = await plain.database()
    const source = postgresqlCdcSource.open(sourceConfig('postgresql-cdc', { connectionString: own.url, tables: ['t'] }), sourceContext())
    await expect(source.connect()).rejects.toMatchObject({
      class: 'config',
      message: expect.stringContaining('wal_level = logical') as string,
    })
  })

  test('a slot in use is waited for; a dropped slot causes a notice and a new snapshot', { timeout: longMs }, async () => {
    await cdc.admin.query(`create table t (id int primary key); insert into t values (1)`)
    const first = await cdc.follow({ tables: ['t'] })
    await waitFor('the row', () => first.read.length === 1)
    await first.source.commit(upTo(first.read[0]!))
    await cdc.streaming(first)
    const second = await cdc.follow({ tables: ['t'] }, { stored: first.source.state() as JsonObject })
    await expect(second.done).rejects.toMatchObject({ class: 'transient' })
    const state = first.source.state() as JsonObject
    await first.stop()
    await waitFor('the slot to be free', () =>
      cdc.admin.query('select pg_drop_replication_slot($1)', [cdc.slotName]).then(
        () => true,
        () => false,
      ),
    )
    const third = await cdc.follow({ tables: ['t'] }, { stored: state })
    await waitFor('the new snapshot', () => third.read.length === 1)
    expect(third.seen.notices.join()).toMatch(/^SlotGone: /)
    expect(compareCdcPositions(first.read[0]!.position, third.read[0]!.position)).toBeLessThan(0)
  })

  test('lag is in bytes, warned about once, and rewinds stay within the slot', { timeout: longMs }, async () => {
    await cdc.admin.query(`create table t (id int primary key); insert into t values (1)`)
    const flow = await cdc.follow({ tables: ['t'], slotLagWarningBytes: '1' })
    await waitFor('the row', () => flow.read.length === 1, { onTimeout: () => cdc.explain(flow) })
    await cdc.admin.query(`create table filler as select repeat('x', 1000) as x from generate_series(1, 100)`)
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

  test('retained bytes count from restart_lsn, which an open transaction delays', { timeout: longMs }, async () => {
    await cdc.admin.query(`create table t (id int primary key)`)
    const flow = await cdc.follow({ tables: ['t'] })
    await cdc.streaming(flow)
    const holder = await cdc.database.connect()
    onTestFinished(() => holder.end())
    // A transaction that has written nothing is unknown to the slot.
    await holder.query('begin; insert into t values (1)')
    await cdc.admin.query(`create table filler as select repeat('x', 1000) as x from generate_series(1, 3000)`)
    const lag = await waitFor('the slot to confirm', async () => {
      const seen = await flow.source.lag()
      return (seen.bytes ?? Infinity) < 500_000 ? seen : undefined
    })
    expect(lag.retainedBytes).toBeGreaterThan(2_000_000)
  })

  test('the preview reads rows and leaves neither slot nor publication', { timeout: longMs }, async () => {
    await cdc.admin.query(
      `create table t (id int primary key, at timestamptz); insert into t select i, '2026-01-02 03:04:05.5Z' from generate_series(1, 9) i`,
    )
    const found = await postgresqlCdcSource.sample(
      sourceConfig('postgresql-cdc', { connectionString: cdc.database.url, tables: ['t'], slotName: cdc.slotName }),
      sourceContext(),
      2,
    )
    expect(payloads(found)).toEqual([
      { id: 1, at: '2026-01-02T03:04:05.5Z' },
      { id: 2, at: '2026-01-02T03:04:05.5Z' },
    ])
    expect(
      (
        await cdc.admin.query(
          'select 1 from pg_replication_slots where database = current_database() union all select 1 from pg_publication',
        )
      ).rows,
    ).toEqual([])
  })
})
