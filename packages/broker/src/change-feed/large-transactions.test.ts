// Long transactions and large ones: a writer elsewhere that holds the oldest snapshot back, a batch larger than a page, a snapshot of
// many pages while the world changes.
import { randomUUID } from 'node:crypto'
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import { unique } from '@brokkr/testing/broker.ts'
import { type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { database } from '@brokkr/testing/servers/postgres.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'

let world: FeedWorld
beforeAll(async () => {
  world = await feedWorld({ BROKKR__LOG__LEVEL: 'info', BROKKR__FEED__PING_SECONDS: '0.2', BROKKR__FEED__CANARY_SECONDS: '600' })
  return () => world.broker.kill()
})
const metric = async (name: RegExp) => Number(name.exec(await (await fetch(`${world.broker.url}/metrics`)).text())?.[1] ?? 0)
const rowsRead = async () =>
  (await metric(/brokkr_feed_rows_total\{source="notify"\} (\d+)/)) + (await metric(/brokkr_feed_rows_total\{source="poll"\} (\d+)/))

test('[S3] changes arrive while another database has an open write transaction', async () => {
  const label = unique('l')
  const stacks = await mapBounded(Array.from({ length: 10 }), 1, () => world.stack([label]))
  const agent = await world.agent([label])
  const stream = await world.follow(agent)
  await stream.frame('snapshot_end')
  const foreign = await (await database()).connect()
  await foreign.query('begin')
  await foreign.query('create table held (n int)')
  const { rows: held } = await foreign.query<{ xid: string }>('select pg_current_xact_id()::text as xid')
  const writer = await world.db.connect()
  const [readBefore, { written: writtenBefore }] = [await rowsRead(), await written()]
  const startedMs = performance.now()
  let commits = 0
  // As fast as one writer can, for as long as the transaction stays open.
  while (performance.now() - startedMs < size('S3.openTransactionMs')) {
    await writer.query(insertText, [stacks[commits % 10]!.id])
    commits += 1
  }
  const expected = await world.wanted(agent)
  await waitFor('everything, while the transaction is open', () =>
    [...expected].every(([id, { rev }]) => stream.wanted().get(id)?.rev === rev),
  )
  const { rows } = await foreign.query<{ open: boolean }>(`select pg_xact_status($1::xid8) = 'in progress' as open`, [held[0]!.xid])
  expect(rows[0]!.open).toBe(true)
  const inFlight = await metric(/brokkr_feed_inflight_entries (\d+)/)
  expect(inFlight).toBeGreaterThanOrEqual(1)
  // Each row was read once, although the oldest snapshot stood still all the time.
  await waitFor('all rows to be read', async () => (await rowsRead()) - readBefore >= (await written()).written - writtenBefore)
  const polls = await metric(/brokkr_feed_polls_total (\d+)/)
  await waitFor('idle polls', async () => (await metric(/brokkr_feed_polls_total (\d+)/)) > polls + 2)
  expect((await rowsRead()) - readBefore).toBe((await written()).written - writtenBefore)
  expect(commits).toBeGreaterThan(50)
  await foreign.query('rollback')
  await Promise.all([foreign.end(), writer.end()])
  stream.close()
})
const written = async () =>
  (
    await world.sql<{ written: number }>(
      `select ((select count(*) from change_log) + (select count(*) from deployment_objects where xid > '0'))::int as written`,
    )
  )[0]!

test('[S46] a transaction with thousands of rows is read in one snapshot without a cursor inside', async () => {
  const rows = size('S46.rows')
  const label = unique('l')
  const [busy, other] = [await world.agent([label]), await world.agent([unique('l')])]
  const [watched, behind, named] = [await world.stack([label]), await world.stack([label]), await world.stack([label])]
  const [busyStream, otherStream] = [await world.follow(busy), await world.follow(other)]
  await busyStream.frame('snapshot_end')
  await otherStream.frame('snapshot_end')
  const writer = await world.db.connect()
  await writer.query('begin')
  // A row of ours first and one last, and so many of nobody in between.
  const { rows: first } = await writer.query<{ id: string }>(`${insertText} returning id`, [watched.id])
  await writer.query(
    `insert into change_log (scope_kind, scope_id, object_kind, object_id, op) select 'stack', gen_random_uuid(), 'stack', null, 'update' from generate_series(1, $1)`,
    [rows],
  )
  const { rows: last } = await writer.query<{ id: string }>(`${insertText} returning id`, [watched.id])
  // More revisions than a page holds. Of this stack the very last row alone says something: within a transaction revisions come by id.
  await writer.query(manyText, [world.tenant.generator.id])
  const lastId = `ffffffff-ffff-4fff-bfff-${randomUUID().slice(-12)}`
  const { rows: behindAll } = await writer.query<{ id: string }>(`${insertText.replace('gen_random_uuid()', '$2')} returning id`, [
    behind.id,
    lastId,
  ])
  // And of this one the last row of the log.
  await writer.query('update stacks set name = $2, last_sequence = last_sequence + 1, sequence_xid = pg_current_xact_id() where id = $1', [
    named.id,
    unique('s'),
  ])
  const bookmarksBefore = busyStream.frames.filter((frame) => frame.type === 'bookmark').length
  const beatsBefore = otherStream.frames.length
  await writer.query('commit')
  await writer.end()
  await busyStream.frame('put', (frame) => frame.object?.id === last[0]!.id)
  await busyStream.frame('put', (frame) => frame.object?.id === behindAll[0]!.id)
  await busyStream.frame('put', (frame) => frame.stack_id === named.id && frame.rev === 1)
  // Both objects stem from one commit: a follower sees its end, never a state between.
  expect(busyStream.frames.some((frame) => frame.type === 'put' && frame.object?.id === first[0]!.id)).toBe(false)
  const at = busyStream.frames.findIndex((frame) => frame.type === 'put' && frame.object?.id === last[0]!.id)
  const between = busyStream.frames
    .slice(0, at)
    .filter((frame) => frame.type === 'bookmark')
    .slice(bookmarksBefore)
  // A cursor that was sent before the frame cannot cover it: whoever resumes there gets it.
  for (const { cursor } of between.slice(-2)) {
    const resumed = await world.follow(busy, { cursor })
    await resumed.frame('put', (frame) => frame.object?.id === last[0]!.id)
    resumed.close()
  }
  const atBehind = busyStream.frames.findIndex((frame) => frame.type === 'put' && frame.object?.id === behindAll[0]!.id)
  const after = await busyStream.bookmarkAfter(busyStream.frames[Math.max(at, atBehind)]!)
  const done = await world.follow(busy, { cursor: after.cursor })
  await done.frame('bookmark')
  expect(done.frames.some((frame) => frame.type === 'put')).toBe(false)
  done.close()
  await waitFor('signs of life elsewhere', () => otherStream.frames.length > beatsBefore + 1)
  const object = await world.submit(watched.id, 'after')
  await busyStream.frame('put', (frame) => frame.object?.id === object.id)
  for (const stream of [busyStream, otherStream]) {
    expect(stream.frames.some((frame) => frame.type === 'bye')).toBe(false)
    stream.close()
  }
}, 60_000)

test('[S10] changes during the paging of a large snapshot are correct after its end', async () => {
  const label = unique('l')
  const agent = await world.agent([label])
  const count = size('S10.stacks')
  // Far more than sockets take, so that the snapshot waits for its reader.
  const ids = await world.manyStacks(agent, { count, label, bytes: Math.round(24_000_000 / count) })
  const stream = await world.follow(agent)
  await stream.frame('put')
  stream.pause() // the snapshot is under way and cannot end
  const early = ids.toSorted()
  const created = await world.stack([label])
  await world.submit(created.id, 'created')
  await world.tenant.client.deleteStack({ params: { id: early[10]! } })
  await world.tenant.client.deleteStack({ params: { id: early.at(-10)! } })
  await world.tenant.client.stacksRemoveLabel({ params: { id: early[20]!, label } })
  await world.tenant.client.stacksRemoveLabel({ params: { id: early.at(-20)!, label } })
  await world.submit(early[30]!, 'changed early')
  await world.submit(early.at(-30)!, 'changed late')
  // Away and back again.
  await world.tenant.client.stacksRemoveLabel({ params: { id: early[40]!, label } })
  await world.tenant.client.stacksAddLabel({ params: { id: early[40]! }, body: label })
  expect(stream.frames.some((frame) => frame.type === 'snapshot_end')).toBe(false)
  stream.resume()
  const end = await stream.frame('snapshot_end')
  expect(end.count).toBe(count)
  const expected = await world.wanted(agent)
  expect(expected.size).toBe(count + 1 - 4)
  const isEqual = () => {
    const held = stream.wanted()
    return (
      held.size === expected.size &&
      [...expected].every(([id, want]) => held.get(id)?.rev === want.rev && held.get(id)?.objectId === want.objectId)
    )
  }
  await waitFor('the map to equal the database', isEqual, {
    onTimeout: () =>
      `differs: ${[...expected].filter(([id, { rev }]) => stream.wanted().get(id)?.rev !== rev).length}, extra: ${[...stream.wanted().keys()].filter((id) => !expected.has(id)).length}`,
  })
  stream.close()
}, 120_000)

/** The number and the object in one statement, as the broker writes them; too large to be sent inline, so nothing is opened. */
/** Stacks of nobody with a revision each. */
const manyText = `with made as (
    insert into stacks (id, name, generator_id, last_sequence, head_object_id)
    select gen_random_uuid(), 'many-' || n, $1, 1, gen_random_uuid() from generate_series(1, 6000) n returning *)
  insert into deployment_objects (id, stack_id, sequence_id, yaml_sealed, yaml_bytes, yaml_checksum, created_by_kind) select head_object_id, id, 1, '', 0, '', 'admin' from made`
const insertText = `with taken as (update stacks set last_sequence = last_sequence + 1, sequence_xid = pg_current_xact_id(), head_object_id = gen_random_uuid() where id = $1 returning *)
  insert into deployment_objects (id, stack_id, sequence_id, yaml_sealed, yaml_bytes, yaml_checksum, created_by_kind) select head_object_id, id, last_sequence, '', 200000, '', 'admin' from taken`
