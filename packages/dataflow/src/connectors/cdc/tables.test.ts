import type { JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type CdcFlow, payloads, upTo, useCdcWorld } from '../test-parts/cdc-flow.ts'

const longMs = 180_000
const cdc = useCdcWorld()

const partitioned = `create table events (id int, day date, v int, primary key (id, day)) partition by range (day);
  create table events_1 partition of events for values from ('2026-01-01') to ('2026-02-01');
  create table events_2 partition of events for values from ('2026-02-01') to ('2026-03-01')`
const tablesOf = ({ read }: CdcFlow) => [...new Set(read.map(({ metadata }) => metadata['table']))]
const idsOf = ({ read }: CdcFlow) => payloads(read).map(({ id }) => id)
const failures = ({ seen }: CdcFlow) => seen.notices.filter((notice) => notice.startsWith('failed'))

describe('partitioned tables', () => {
  test('changes of partitions arrive under the name of the listed root, also after a restart', { timeout: longMs }, async () => {
    await cdc.admin.query(`${partitioned}; insert into events values (1, '2026-01-05', 0), (2, '2026-02-05', 0)`)
    const first = await cdc.follow({ tables: ['events'] })
    await waitFor('the snapshot', () => first.read.length === 2, { onTimeout: () => cdc.explain(first) })
    await cdc.admin.query(`create table events_3 partition of events for values from ('2026-03-01') to ('2026-04-01')`)
    await cdc.admin.query(`insert into events values (3, '2026-01-06', 0), (4, '2026-03-06', 0); delete from events where id = 2`)
    await waitFor('the changes', () => first.read.length === 5, { onTimeout: () => cdc.explain(first) })
    expect(idsOf(first).slice(2)).toEqual([3, 4, 2])
    expect(tablesOf(first)).toEqual(['events'])
    await first.source.commit(upTo(first.read.at(-1)!))
    await first.stop()
    await cdc.admin.query(`insert into events values (5, '2026-03-07', 0)`)
    const second = await cdc.follow({ tables: ['events'] }, { stored: first.source.state() as JsonObject })
    await waitFor('the change', () => second.read.length === 1, { onTimeout: () => cdc.explain(second) })
    expect(idsOf(second)).toEqual([5])
    expect(failures(second)).toEqual([])
  })

  test('a publication gets publish_via_partition_root without losing changes', { timeout: longMs }, async () => {
    await cdc.admin.query(`${partitioned}; create publication pub_${cdc.slotName} for table events`)
    await cdc.admin.query(`select pg_create_logical_replication_slot($1, 'pgoutput')`, [cdc.slotName])
    await cdc.admin.query(`insert into events values (1, '2026-01-05', 0)`)
    const flow = await cdc.follow({ tables: ['events'], snapshotMode: 'never' })
    await cdc.streaming(flow)
    await cdc.admin.query(`insert into events values (2, '2026-02-05', 0)`)
    await waitFor('both changes', () => flow.read.length === 2, { onTimeout: () => cdc.explain(flow) })
    expect(idsOf(flow)).toEqual([1, 2])
    expect(tablesOf(flow)).toEqual(['events'])
  })

  test('a publication that may not be changed fails with the SQL to run', { timeout: longMs }, async () => {
    await cdc.admin.query(`${partitioned}; create publication pub_${cdc.slotName} for table events`)
    await expect(cdc.follow({ tables: ['events'], createPublicationIfNotExists: false })).rejects.toMatchObject({
      class: 'config',
      message: expect.stringContaining('set (publish_via_partition_root = true)') as string,
    })
  })

  test('a partition that is published under its root is rejected', { timeout: longMs }, async () => {
    await cdc.admin.query(`${partitioned}; create publication pub_${cdc.slotName} for table events with (publish_via_partition_root)`)
    await expect(cdc.follow({ tables: ['events_1'] })).rejects.toMatchObject({
      class: 'config',
      message: expect.stringContaining('publishes the rows of public.events_1 as public.events') as string,
    })
    await expect(cdc.follow({ tables: ['events', 'events_1'] })).rejects.toMatchObject({
      class: 'config',
      message: expect.stringContaining('the flow lists both') as string,
    })
  })
})

test('dropped rows of a published table that the flow does not list are counted and announced', { timeout: longMs }, async () => {
  await cdc.admin.query(`create table t (id int primary key); create table u (id int primary key)`)
  await cdc.admin.query(`create publication pub_${cdc.slotName} for table t, u`)
  const flow = await cdc.follow({ tables: ['t'] })
  await cdc.streaming(flow)
  await cdc.admin.query('insert into u values (1), (2); insert into t values (1)')
  await waitFor('the listed row', () => flow.read.length === 1, { onTimeout: () => cdc.explain(flow) })
  expect(tablesOf(flow)).toEqual(['t'])
  expect(flow.seen.dropped).toBe(2)
  expect(flow.seen.notices).toEqual([expect.stringMatching(/^UnlistedTable: .*public\.u/)])
})

describe('tables added to a flow that streams', () => {
  test('an added table is read with its existing rows and later changes', { timeout: longMs }, async () => {
    await cdc.admin.query(`create table t (id int primary key); create table u (id int primary key)`)
    await cdc.admin.query('insert into t values (1); insert into u select generate_series(1, 3)')
    const first = await cdc.follow({ tables: ['t'] })
    await waitFor('the snapshot', () => first.read.length === 1, { onTimeout: () => cdc.explain(first) })
    await first.source.commit(upTo(first.read[0]!))
    await first.stop()
    const second = await cdc.follow({ tables: ['t', 'u'] }, { stored: first.source.state() as JsonObject })
    await waitFor('the rows of the added table', () => second.read.length === 3, { onTimeout: () => cdc.explain(second) })
    expect(tablesOf(second)).toEqual(['u'])
    expect(second.seen.notices).toEqual([expect.stringMatching(/^SnapshotOfAddedTables: public\.u/)])
    await cdc.admin.query('insert into u values (4); insert into t values (2)')
    await waitFor('the changes', () => second.read.length === 5, { onTimeout: () => cdc.explain(second) })
    await second.source.commit(upTo(second.read.at(-1)!))
    expect(second.source.state()).toMatchObject({ phase: 'streaming', snapshotCompletedTables: ['public.t', 'public.u'] })
    expect(failures(second)).toEqual([])
  })

  test('a recreated table is read again', { timeout: longMs }, async () => {
    await cdc.admin.query(`create table t (id int primary key); create table u (id int primary key); insert into t values (1)`)
    const first = await cdc.follow({ tables: ['t', 'u'] }, { isBounded: true })
    await first.done
    await first.source.commit(upTo(first.read[0]!))
    await first.stop()
    await cdc.admin.query('drop table t; create table t (id int primary key); insert into t values (2), (3)')
    const second = await cdc.follow({ tables: ['t', 'u'] }, { isBounded: true, stored: first.source.state() as JsonObject })
    await second.done
    expect(idsOf(second)).toEqual([2, 3])
  })

  test('a table that is removed and added again is read again', { timeout: longMs }, async () => {
    await cdc.admin.query(`create table t (id int primary key); create table u (id int primary key); insert into u values (1)`)
    const first = await cdc.follow({ tables: ['t', 'u'] }, { isBounded: true })
    await first.done
    await first.source.commit(upTo(first.read[0]!))
    await first.stop()
    const second = await cdc.follow({ tables: ['t'] }, { isBounded: true, stored: first.source.state() as JsonObject })
    await second.done
    await second.stop()
    await cdc.admin.query('insert into u values (2)')
    const third = await cdc.follow({ tables: ['t', 'u'] }, { isBounded: true, stored: second.source.state() as JsonObject })
    await third.done
    expect(new Set(idsOf(third))).toEqual(new Set([1, 2]))
  })
})

test('a row that a transaction wrote before the publication and commits after the start is read', { timeout: longMs }, async () => {
  await cdc.admin.query(`create table t (id int primary key)`)
  await cdc.admin.query(`select pg_create_logical_replication_slot($1, 'pgoutput')`, [cdc.slotName])
  const writer = await cdc.database.connect()
  onTestFinished(() => writer.end())
  await writer.query('begin; insert into t values (1)')
  const flow = await cdc.follow({ tables: ['t'] })
  const active = `select 1 from pg_replication_slots where active and database = current_database()`
  await waitFor('a slot in use', async () => (await cdc.admin.query(active)).rows.length > 0, { onTimeout: () => cdc.explain(flow) })
  await writer.query('commit; insert into t values (2)')
  await waitFor('the last row', () => idsOf(flow).includes(2), { onTimeout: () => cdc.explain(flow) })
  expect(idsOf(flow)).toContain(1)
})
