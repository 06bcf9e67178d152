// long: waits out the lives of streams
import { randomBytes } from 'node:crypto'
import { startTestBroker, unique } from '@brokkr/testing/broker.ts'
import { type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { parseSnapshot, signCursor } from '../reader/cursor.ts'

let world: FeedWorld
beforeAll(async () => {
  world = await feedWorld({ BROKKR__FEED__PING_SECONDS: '0.2', BROKKR__FEED__STREAM_LIFE_SECONDS: '[600, 600]' })
  return () => world.broker.kill()
})
const feedState = async () =>
  (
    await world.sql<{ cursor_key: Buffer; epoch: string; boot: string; now: string }>(
      'select cursor_key, epoch, boot, pg_current_snapshot()::text as now from feed_state',
    )
  )[0]!

test('[S9] an agent without any put misses no change while its stream is down', async () => {
  const label = unique('l')
  const agent = await world.agent([label])
  const first = await world.follow(agent)
  const { cursor } = await first.frame('snapshot_end')
  first.close()
  await first.ended
  const stacks = [await world.stack([label]), await world.stack([label]), await world.stack([label])]
  for (const { id } of stacks) await world.submit(id, 'v')
  const again = await world.follow(agent, { cursor })
  expect(await again.frame('hello')).toMatchObject({ mode: 'resume' })
  for (const { id } of stacks) await again.frame('put', (frame) => frame.stack_id === id && frame.rev === 1)
  again.close()
})

test('[S15] a cursor an hour old resumes with exactly the stacks that changed, and no snapshot', async () => {
  const label = unique('l')
  const [changed, renamed, untouched] = [await world.stack([label]), await world.stack([label]), await world.stack([label])]
  for (const { id } of [changed, renamed, untouched]) await world.submit(id, 'a')
  const agent = await world.agent([label])
  const first = await world.follow(agent)
  const { cursor } = await first.frame('snapshot_end')
  first.close()
  await world.sql(`update change_log set created_at = created_at - interval '1 hour'`)
  const object = await world.submit(changed.id, 'b')
  await world.sql(`update stacks set name = $1, last_sequence = last_sequence + 1, sequence_xid = pg_current_xact_id() where id = $2`, [
    unique('s'),
    renamed.id,
  ])
  // A process that has not read what came since: it must ask the database.
  const other = await world.broker.sibling()
  const again = await world.follow(agent, { cursor, at: other })
  await again.frame('put', (frame) => frame.stack_id === renamed.id && frame.rev === 2)
  await again.bookmarkAfter(await again.frame('put', (frame) => frame.object?.id === object.id))
  const stacks = again.frames.flatMap((frame) => (frame.type === 'put' ? [frame.stack_id] : []))
  expect(new Set(stacks)).toEqual(new Set([changed.id, renamed.id]))
  expect(again.frames.some((frame) => frame.type === 'snapshot_begin')).toBe(false)
  again.close()
  await other.kill()
})

test('[S16] a cursor below the floor gets a snapshot instead of a partial resume', async () => {
  const label = unique('l')
  await world.submit((await world.stack([label])).id, 'v')
  const agent = await world.agent([label])
  const first = await world.follow(agent)
  const { cursor } = await first.frame('snapshot_end')
  first.close()
  const { floor_xid: before } = (await world.sql<{ floor_xid: string }>('select floor_xid::text from feed_state'))[0]!
  // Raised past the cursor at this very moment: the process may not have polled since.
  // One more than this statement's own number: the cursor may end right below it.
  await world.sql('update feed_state set floor_xid = (pg_current_xact_id()::text::bigint + 1)::text::xid8')
  const again = await world.follow(agent, { cursor })
  expect(await again.frame('snapshot_begin')).toMatchObject({ reason: 'gone' })
  expect((await again.frame('snapshot_end')).count).toBe(1)
  again.close()
  await world.sql('update feed_state set floor_xid = $1', [before])
})

test('[S18] a malformed or foreign cursor is refused or answered with one snapshot', async () => {
  const agent = await world.agent()
  const first = await world.follow(agent)
  const { cursor } = await first.frame('snapshot_end')
  first.close()
  const { cursor_key, epoch, boot, now } = await feedState()
  const snapshot = parseSnapshot(now)
  for (const bad of ['x', cursor.slice(0, -4), signCursor(randomBytes(32), { epoch, boot, snapshot }), 'a'.repeat(5000)]) {
    const refused = await world.follow(agent, { cursor: bad })
    expect(refused.status).toBe(400)
    refused.close()
  }
  const other = signCursor(cursor_key, { epoch: '00000000-0000-4000-8000-00000000ffff', boot, snapshot })
  const elsewhere = await world.follow(agent, { cursor: other })
  expect(await elsewhere.frame('snapshot_begin')).toMatchObject({ reason: 'epoch' })
  await elsewhere.frame('snapshot_end')
  await elsewhere.frame('bookmark')
  expect(elsewhere.frames.filter((frame) => frame.type === 'snapshot_begin')).toHaveLength(1)
  elsewhere.close()
  // A cursor from the future of this history cannot have been issued by it.
  const future = signCursor(cursor_key, {
    epoch,
    boot,
    snapshot: { xmin: snapshot.xmax + 10_000n, xmax: snapshot.xmax + 10_000n, inFlight: [] },
  })
  // The broker takes it for what it is, a database that went back: its epoch ends, and with it every cursor.
  const ahead = await world.follow(agent, { cursor: future })
  await ahead.ended
  const renewed = await waitFor('a new epoch', async () => (await feedState()).epoch !== epoch && (await feedState()).epoch)
  for (const stale of [future, cursor]) {
    const after = await world.follow(agent, { cursor: stale })
    expect(await after.frame('hello')).toMatchObject({ mode: 'snapshot', reason: 'epoch', epoch: renewed })
    await after.frame('snapshot_end')
    await after.frame('bookmark')
    expect(after.frames.filter((frame) => frame.type === 'snapshot_begin')).toHaveLength(1)
    after.close()
  }
  expect((await feedState()).epoch).toBe(renewed)
})

test('[S17] an agent without changes resumes from bookmarks after every stream life', async () => {
  const short = await startTestBroker({
    databaseUrl: world.db.url,
    env: {
      BROKKR__BROKER__ENCRYPTION_KEY: world.broker.encryptionKey,
      BROKKR__FEED__PING_SECONDS: '0.1',
      BROKKR__FEED__STREAM_LIFE_SECONDS: '[0.6, 0.8]',
    },
  })
  const agent = await world.agent()
  let stream = await world.follow(agent, { at: short })
  await stream.frame('snapshot_end')
  for (let life = 0; life < 3; life += 1) {
    await world.submit((await world.stack()).id, 'elsewhere')
    await stream.ended
    const { cursor } = await stream.frame('bye', (frame) => frame.reason === 'lifetime')
    // Everything the log held so far is dropped: only a cursor that bookmarks kept fresh is still above the floor.
    const { low } = (await world.sql<{ low: string }>('select pg_snapshot_xmin(pg_current_snapshot())::text as low'))[0]!
    const next = await world.follow(agent, { at: short, cursor: cursor! })
    expect(await next.frame('hello')).toMatchObject({ mode: 'resume' })
    await next.frame('bookmark')
    await world.sql('update feed_state set floor_xid = $1', [low])
    stream = next
  }
  expect(stream.frames.some((frame) => frame.type === 'snapshot_begin')).toBe(false)
  stream.close()
  await short.kill()
  await world.sql('update feed_state set floor_xid = $1', ['0'])
})

test('a declared epoch closes streams in every process and rejects old cursors', async () => {
  const agent = await world.agent()
  // This process would look at the history by itself only much later: the news must come with what it reads.
  const seldom = await world.broker.sibling({ BROKKR__FEED__POLL_MS: '3600000', BROKKR__FEED__STALE_SECONDS: '[3600, 7200]' })
  const streams = [await world.follow(agent), await world.follow(agent, { at: seldom })]
  const [{ cursor }] = await Promise.all([streams[0]!.frame('snapshot_end'), streams[1]!.frame('bookmark')])
  const before = await feedState()
  // The floor rises with the epoch, past what these processes have read; that is no reason of its own.
  await world.sql('select pg_current_xact_id()')
  const { epoch } = await world.broker.admin.newEpoch({})
  for (const stream of streams) expect((await stream.frame('bye')).reason).toBe('epoch')
  await seldom.kill()
  expect(epoch).not.toBe(before.epoch)
  expect((await feedState()).epoch).toBe(epoch)
  const again = await waitFor('a stream in the new epoch', async () => {
    const tried = await world.follow(agent, { cursor })
    return tried.status === 200 ? tried : undefined
  })
  expect(await again.frame('snapshot_begin')).toMatchObject({ reason: 'epoch' })
  again.close()
  expect(await world.sql(`select from audit_logs where action = 'feed.new_epoch'`)).toHaveLength(1)
  await expect(world.tenant.client.newEpoch({})).rejects.toMatchObject({ code: 'admin_required' })
})

test('a reconnecting stream resumes from the ring', async () => {
  const label = unique('l')
  const stack = await world.stack([label])
  const agent = await world.agent([label])
  const first = await world.follow(agent)
  await first.frame('snapshot_end')
  const { cursor } = await first.frame('bookmark')
  first.close()
  const hits = async () =>
    Number(/brokkr_feed_ring_hits_total (\d+)/.exec(await (await fetch(`${world.broker.url}/metrics`)).text())?.[1] ?? 0)
  const before = await hits()
  const object = await world.submit(stack.id, 'missed')
  const again = await world.follow(agent, { cursor })
  expect(await again.frame('hello')).toMatchObject({ mode: 'resume' })
  await again.frame('put', (frame) => frame.object?.id === object.id)
  expect(await hits()).toBe(before + 1)
  again.close()
})

test('a long poll ends with a bookmark at the first change or its timeout', async () => {
  const label = unique('l')
  const stack = await world.stack([label])
  const agent = await world.agent([label])
  const first = await world.follow(agent, { query: { wait: '20s' } })
  await first.ended
  // A look may come along: the agent's own record was made a moment ago.
  const types = first.frames.map((frame) => frame.type).filter((type) => type !== 'look')
  expect(types).toEqual(['hello', 'snapshot_begin', 'put', 'snapshot_end', 'bookmark'])
  const { cursor } = await first.frame('bookmark')
  const idle = await world.follow(agent, { cursor, query: { wait: '0.3s' } })
  await idle.ended
  expect(idle.frames.at(-1)?.type).toBe('bookmark')
  expect(idle.frames.some((frame) => frame.type === 'put')).toBe(false)
  const waiting = await world.follow(agent, { cursor, query: { wait: '30s' } })
  await waiting.frame('hello')
  const object = await world.submit(stack.id, 'news')
  await waiting.ended
  expect(
    waiting.frames
      .filter((frame) => frame.type !== 'ping' && frame.type !== 'look')
      .map((frame) => frame.type)
      .slice(-2),
  ).toEqual(['put', 'bookmark'])
  expect(waiting.wanted().get(stack.id)?.objectId).toBe(object.id)
})

test('a stream sends server-sent events and resumes from Last-Event-ID', async () => {
  const agent = await world.agent()
  const headers = { authorization: `Bearer ${agent.pak}`, accept: 'text/event-stream' }
  const read = async (extra: Record<string, string>, until: RegExp) => {
    const ending = new AbortController()
    const answer = await fetch(`${world.broker.url}/api/v1/agents/${agent.agent.id}/stream`, {
      headers: { ...headers, ...extra },
      signal: ending.signal,
    })
    let text = ''
    for await (const chunk of answer.body!.pipeThrough(new TextDecoderStream()) as unknown as AsyncIterable<string>) {
      text += chunk
      if (until.test(text)) break
    }
    ending.abort()
    return { type: answer.headers.get('content-type'), text }
  }
  const first = await read({}, /event: bookmark\n[\s\S]*\n\n/)
  expect(first.type).toBe('text/event-stream')
  expect(first.text).toMatch(/^retry: \d+\n\nevent: hello\ndata: \{"type":"hello"/)
  const id = /event: snapshot_end\nid: (\S+)\ndata: /.exec(first.text)?.[1]
  expect(id).toBeDefined()
  const second = await read({ 'last-event-id': id! }, /event: hello\ndata: .*\n\n/)
  expect(second.text).toContain('"mode":"resume"')
})

test('a third stream of an agent closes its oldest stream', async () => {
  const agent = await world.agent()
  const [one, two] = [await world.follow(agent), await world.follow(agent)]
  await one.frame('snapshot_end')
  await two.frame('snapshot_end')
  const three = await world.follow(agent)
  await three.frame('snapshot_end')
  await one.frame('bye', (frame) => frame.reason === 'overloaded')
  expect(two.frames.some((frame) => frame.type === 'bye')).toBe(false)
  two.close()
  three.close()
})
