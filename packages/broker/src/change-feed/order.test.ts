import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import { type TestAgent, unique } from '@brokkr/testing/broker.ts'
import { type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import type pg from 'pg'
import { beforeAll, expect, onTestFinished, test } from 'vitest'

let world: FeedWorld
beforeAll(async () => {
  world = await feedWorld({ BROKKR__LOG__LEVEL: 'info', BROKKR__FEED__POLL_MS: '10' })
  return () => world.broker.kill()
})

test('[S5] a slow reader gets strictly increasing revs of a stack and ends at the last', async () => {
  const label = unique('l')
  const stack = await world.stack([label])
  const agent = await world.agent([label])
  const stream = await world.follow(agent)
  await stream.frame('snapshot_end')
  stream.pause()
  const made = await Promise.all(Array.from({ length: 100 }, (_, n) => world.submit(stack.id, `${n} ${'x'.repeat(4000)}`)))
  stream.resume()
  const last = made.toSorted((a, b) => a.sequence_id - b.sequence_id).at(-1)!
  await stream.frame('put', (frame) => frame.object?.id === last.id)
  const revs = stream.frames.flatMap((frame) => (frame.type === 'put' && frame.object !== null ? [frame.rev] : []))
  expect(revs).toEqual([...new Set(revs)].toSorted((a, b) => a - b))
  expect(revs.at(-1)).toBe(100)
  stream.close()
})

test('[S7] a stream resumed from any bookmark converges to the database', async () => {
  const label = unique('l')
  const stacks = await mapBounded(Array.from({ length: 8 }), 1, () => world.stack([label]))
  const agent = await world.agent([label])
  const stream = await world.follow(agent)
  await stream.frame('snapshot_end')
  await Promise.all(
    stacks.map(async ({ id }, lane) => {
      for (let n = 0; n < 12; n += 1) {
        const held = await world.openSubmission(id, `${n}`)
        if ((lane + n) % 3 === 0) await world.submit(stacks[(lane + 1) % 8]!.id, 'between').catch(() => undefined)
        await (n % 5 === 4 ? held.rollback() : held.commit())
      }
    }),
  )
  const expected = await world.wanted(agent)
  await waitFor('the stream to have everything', () => [...expected].every(([id, { rev }]) => (stream.wanted().get(id)?.rev ?? 0) >= rev))
  await stream.bookmarkAfter(stream.frames.findLast((frame) => frame.type === 'put')!)
  const bookmarks = stream.frames.flatMap((frame, at) => (frame.type === 'bookmark' ? [{ cursor: frame.cursor, at }] : []))
  expect(bookmarks.length).toBeGreaterThan(3)
  const sample = bookmarks.filter((_, n) => n % Math.ceil(bookmarks.length / 6) === 0 || n >= bookmarks.length - 6)
  for (const { cursor, at } of sample) {
    // What was known at the bookmark plus what the resumed stream brings must be everything.
    const known = new Map(
      stream.frames.slice(0, at).flatMap((frame) => (frame.type === 'put' ? [[frame.stack_id, frame.rev] as const] : [])),
    )
    const resumed = await world.follow(agent, { cursor })
    await waitFor(
      `resume from bookmark at ${at}`,
      () => [...expected].every(([id, { rev }]) => (resumed.wanted().get(id)?.rev ?? known.get(id as never) ?? -1) === rev),
      {
        onTimeout: () => JSON.stringify(resumed.frames.map((frame) => frame.type)),
      },
    )
    resumed.close()
  }
  stream.close()
})

test(
  '[S4] sixteen writers that hold, roll back and are killed: the agent’s map equals the database, nothing is missing',
  async () => {
    const commits = size('S4.commits')
    const stacksPerWriter = 10
    const label = unique('l')
    const agent = await world.agent([label])
    const stacks = await mapBounded(Array.from({ length: 16 * stacksPerWriter }), 1, () => world.stack([label]))
    const following = await followOn(agent)
    await Promise.all(
      Array.from({ length: 16 }, (_, n) =>
        writeAlone(
          stacks.slice(n * stacksPerWriter, (n + 1) * stacksPerWriter).map(({ id }) => id),
          commits / 16,
          n,
        ),
      ),
    )
    const expected = await world.wanted(agent)
    const isEqual = () => {
      const held = following.wanted()
      return (
        held.size === expected.size &&
        [...expected].every(([id, want]) => held.get(id)?.rev === want.rev && held.get(id)?.objectId === want.objectId)
      )
    }
    await waitFor('the map to equal the database', isEqual, {
      onTimeout: () =>
        `missing: ${[...expected].filter(([id, { rev }]) => following.wanted().get(id)?.rev !== rev).length} of ${expected.size}`,
    })
    // Only its time may end a stream, and the next one goes on where it ended.
    expect(
      following.streams.flatMap(({ frames }) => frames.filter((frame) => frame.type === 'bye' && frame.reason !== 'lifetime')),
    ).toEqual([])
    expect(following.streams.slice(1).every(({ frames }) => frames[0]?.type === 'hello' && frames[0].mode === 'resume')).toBe(true)
    following.stop()
  },
  Math.max(300_000, size('S4.commits') * 6),
)

/** Follows as an agent does, for as long as it takes: with heartbeats, and by its cursor when a stream has lived its time. */
async function followOn(agent: TestAgent) {
  const streams = [await world.follow(agent)]
  await streams[0]!.frame('snapshot_end')
  const beating = setInterval(() => void agent.client.recordHeartbeat({ params: { id: agent.agent.id } }).catch(() => undefined), 5_000)
  const over = new AbortController()
  const stop = () => {
    over.abort()
    clearInterval(beating)
    streams.at(-1)!.close()
  }
  onTestFinished(stop)
  void (async () => {
    for (;;) {
      await streams.at(-1)!.ended
      if (over.signal.aborted) return
      const cursor = streams.flatMap(({ frames }) => frames.flatMap((frame) => (frame.type === 'bookmark' ? frame.cursor : []))).at(-1)
      streams.push(await world.follow(agent, cursor === undefined ? {} : { cursor }))
    }
  })().catch(() => undefined)
  return { streams, wanted: () => new Map(streams.flatMap((stream) => [...stream.wanted()])), stop }
}

/** Commits objects one after the other on a connection that is now and then rolled back, held open or killed from outside. */
async function writeAlone(stackIds: readonly string[], commits: number, seed: number): Promise<void> {
  let random = seed + 1
  const next = (below: number) => (random = (random * 48_271) % 2_147_483_647) % below
  const holdMs = size('S4.holdMsMax')
  let client = await connected()
  for (let done = 0; done < commits; ) {
    const stackId = stackIds[next(stackIds.length)]!
    try {
      await client.query('begin')
      await client.query(insertText, [stackId])
      if (next(10) === 0) await new Promise((resolve) => setTimeout(resolve, next(holdMs)))
      const fate = next(100)
      if (fate < 5) await client.query('rollback')
      else if (fate < 6) await client.query('select pg_terminate_backend(pg_backend_pid())')
      else {
        await client.query('commit')
        done += 1
      }
    } catch {
      await client.end().catch(() => undefined)
      client = await connected()
    }
  }
  await client.end()
}

async function connected(): Promise<pg.Client> {
  const client = await world.db.connect()
  client.on('error', () => undefined)
  return client
}

/** The number and the object in one statement each, as the broker writes them; the content cannot be opened, which only makes it a skip. */
const insertText = `with taken as (update stacks set last_sequence = last_sequence + 1, sequence_xid = pg_current_xact_id(), head_object_id = gen_random_uuid() where id = $1 returning *)
  insert into deployment_objects (id, stack_id, sequence_id, yaml_sealed, yaml_bytes, yaml_checksum, created_by_kind) select head_object_id, id, last_sequence, '', 0, '', 'admin' from taken`
