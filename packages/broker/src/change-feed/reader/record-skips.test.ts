// Content that cannot be sent: told as a skip, written into the status, and in nobody's way.
// long: starts more than one broker
import { createHash } from 'node:crypto'
import { digestText } from '@brokkr/contract/feed/digest.ts'
import { type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { configMapYaml, type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import type { StreamReader } from '@brokkr/testing/stream-reader.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'

let world: FeedWorld
/** Sends less than the other one took. */
let narrow: TestBroker
beforeAll(async () => {
  world = await feedWorld()
  narrow = await world.broker.sibling({ BROKKR__LIMITS__OBJECT_BODY_BYTES: '2000' })
  return () => Promise.all([world.broker.kill(), narrow.kill()])
})
const large = 'x'.repeat(3000)
/** An object whose content no key opens. */
const spoil = async (stackId: string) => {
  const text = configMapYaml('spoiled')
  const rows = await world.sql<{ id: string }>(
    `with taken as (update stacks set last_sequence = last_sequence + 1, sequence_xid = pg_current_xact_id(), head_object_id = gen_random_uuid() where id = $1 returning *)
     insert into deployment_objects (id, stack_id, sequence_id, yaml_sealed, yaml_bytes, yaml_checksum, created_by_kind)
     select head_object_id, id, last_sequence, '\\x00', $2, $3, 'admin' from taken returning id`,
    [stackId, Buffer.byteLength(text), createHash('sha256').update(text).digest('hex')],
  )
  return rows[0]!
}
const statusOf = async (stackId: string) => (await world.tenant.client.getStackStatus({ params: { id: stackId } })).agents[0]
const failed = (stackId: string, code: string) =>
  waitFor(`status failed ${code}`, async () => {
    const status = await statusOf(stackId)
    return status?.phase === 'failed' && status.code === code ? status : undefined
  })
/** As an agent counts: puts by the content it hashed itself, skips by what they name. */
function digestDesiredState(stream: StreamReader): { count: number; digest: string } {
  const lines = new Map<string, Parameters<typeof digestText>[0] extends Iterable<infer L> ? L : never>()
  for (const frame of stream.frames) {
    if (frame.type === 'skip')
      lines.set(frame.stack_id, { stackId: frame.stack_id, rev: frame.rev, object: { id: frame.object_id, checksum: frame.yaml_checksum } })
    if (frame.type !== 'put') continue
    const checksum = createHash('sha256')
      .update(frame.object?.yaml_content ?? '')
      .digest('hex')
    lines.set(frame.stack_id, { stackId: frame.stack_id, rev: frame.rev, object: frame.object && { id: frame.object.id, checksum } })
  }
  return { count: lines.size, digest: createHash('sha256').update(digestText(lines.values())).digest('hex') }
}

test('[S27] an oversized or unreadable manifest is skipped and reported as failed', async () => {
  const label = unique('l')
  const [tooLarge, unreadable, fine] = [await world.stack([label]), await world.stack([label]), await world.stack([label])]
  const big = await world.submit(tooLarge.id, large)
  const spoiled = await spoil(unreadable.id)
  await world.submit(fine.id, 'fine')
  const agent = await world.agent([label])

  // In a snapshot.
  const stream = await world.follow(agent, { at: narrow })
  const end = await stream.frame('snapshot_end')
  expect(await stream.frame('skip', ({ stack_id }) => stack_id === tooLarge.id)).toMatchObject({
    object_id: big.id,
    rev: 1,
    code: 'too_large',
  })
  expect(await stream.frame('skip', ({ stack_id }) => stack_id === unreadable.id)).toMatchObject({
    object_id: spoiled.id,
    code: 'unreadable',
  })
  expect(stream.frames.some((frame) => frame.type === 'put' && frame.stack_id === fine.id)).toBe(true)
  expect(end).toMatchObject(digestDesiredState(stream))
  expect(end.count).toBe(3)
  expect(await failed(tooLarge.id, 'too_large')).toMatchObject({ deployment_object_id: big.id })
  await failed(unreadable.id, 'unreadable')
  const { session } = await stream.frame('hello')
  const check = async (cursor: string) =>
    (
      await agent.client.reportStatus({
        params: { id: agent.agent.id },
        body: { session, n: 1, stacks: [], check: { cursor, ...digestDesiredState(stream) } },
      })
    ).check
  expect(await check(end.cursor)).toBe('match')

  // Live, and what comes after it in the same batch.
  const [first, second] = [await world.submit(fine.id, large), await spoil(fine.id)]
  await stream.frame('skip', ({ object_id }) => object_id === second.id)
  expect([first.sequence_id, (await failed(fine.id, 'unreadable')).rev]).toEqual([2, 3])
  const after = await world.submit(fine.id, 'later')
  const put = await stream.frame('put', (frame) => frame.object?.id === after.id)
  const bookmark = await stream.bookmarkAfter(put)
  expect(await check(bookmark.cursor)).toBe('match')
  expect(stream.frames.some((frame) => frame.type === 'bye')).toBe(false)

  // The agent's own word wins over the broker's, and the same skip told again does not take it back.
  const report = { stack_id: fine.id, rev: 4, object_id: after.id, phase: 'applied' as const, observed_at: new Date().toISOString() }
  expect(
    await agent.client.reportStatus({ params: { id: agent.agent.id }, body: { session, n: 2, stacks: [report as never] } }),
  ).toMatchObject({ accepted: 1 })
  stream.close()
  const again = await world.follow(agent, { at: narrow })
  await again.frame('snapshot_end')
  expect((await statusOf(fine.id))?.phase).toBe('applied')
  again.close()
  // Who sends more sends it.
  const wide = await world.follow(agent)
  await wide.frame('put', (frame) => frame.object?.id === big.id)
  wide.close()
})
