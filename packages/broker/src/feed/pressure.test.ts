import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import { startTestBroker, type TestAgent, unique } from '@brokkr/testing/broker.ts'
import { startFaultProxy } from '@brokkr/testing/fault-proxy.ts'
import { type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { type Follower, followStream } from '@brokkr/testing/follower.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'

let world: FeedWorld
beforeAll(async () => {
  world = await feedWorld({
    BROKKR__LOG__LEVEL: 'info',
    BROKKR__FEED__SLOW_SECONDS: '0.5',
    BROKKR__FEED__PING_SECONDS: '0.3',
    BROKKR__FEED__DEAD_SECONDS: '1.5',
    BROKKR__FEED__FAR_END_CHECK_SECONDS: '0.3',
  })
  return () => world.broker.kill()
})

const beat = (agent: TestAgent): void => void agent.client.recordHeartbeat({ params: { id: agent.agent.id } }).catch(() => undefined)

test('[S28] a consumer that stops reading is closed as slow within its bounds, and the others do not stall', async () => {
  const label = unique('l')
  const stacks = await mapBounded(Array.from({ length: 10 }), 4, () => world.stack([label]))
  const [stuck, fine] = [await world.agent([label]), await world.agent([label])]
  const stuckStream = await world.follow(stuck)
  await stuckStream.frame('snapshot_end')
  const fineStream = await world.follow(fine)
  await fineStream.frame('snapshot_end')
  const beating = setInterval(() => beat(fine), 300)
  const beatingStuck = setInterval(() => beat(stuck), 300)
  stuckStream.pause()
  let last = { id: '', stack: '' }
  // Far more than sockets buffer, far less than would fit if every frame were kept.
  for (let n = 0; n < 120; n += 1) {
    const stack = stacks[n % stacks.length]!
    last = { id: (await world.submit(stack.id, `${n} ${'x'.repeat(100_000)}`)).id, stack: stack.id }
    await fineStream.frame('put', (frame) => frame.object?.id === last.id)
  }
  stuckStream.resume()
  await stuckStream.ended
  expect(stuckStream.wanted().get(last.stack)?.objectId).not.toBe(last.id)
  // It resumes by its own cursor, or from the start, and has everything.
  const again = await world.follow(stuck)
  await again.frame('snapshot_end')
  expect(again.wanted().get(last.stack)?.objectId).toBe(last.id)
  clearInterval(beating)
  clearInterval(beatingStuck)
  again.close()
  fineStream.close()
})

test('[S29] a consumer at ten kilobytes a second gets the newest of ten stacks, never a backlog of all that was', async () => {
  const slowBroker = await startTestBroker({
    databaseUrl: world.db.url,
    env: { BROKKR__BROKER__ENCRYPTION_KEY: world.broker.encryptionKey, BROKKR__LOG__LEVEL: 'info' },
  })
  const proxy = await startFaultProxy({ target: { host: '127.0.0.1', port: Number(new URL(slowBroker.url).port) } })
  const label = unique('l')
  const stacks = await mapBounded(Array.from({ length: 10 }), 4, () => world.stack([label]))
  const agent = await world.agent([label])
  const stream = await followStream(proxy.url, { agentId: agent.agent.id, pak: agent.pak })
  await stream.frame('snapshot_end')
  proxy.throttle(10_000, 'toClient')
  const submitted: string[] = []
  for (let n = 0; n < 300; n += 1) submitted.push((await world.submit(stacks[n % 10]!.id, `${n} ${'y'.repeat(20_000)}`)).id)
  const newest = submitted.slice(-10)
  proxy.heal()
  await waitFor(
    'the newest of all ten',
    () => newest.every((id) => [...stream.wanted().values()].some(({ objectId }) => objectId === id)),
    { limitMs: 60_000 },
  )
  const puts = stream.frames.filter((frame) => frame.type === 'put' && frame.object !== null).length
  expect(puts).toBeLessThan(300)
  stream.close()
  await proxy.close()
  await slowBroker.kill()
})

test('[S14] agents without cursor that come all at once are admitted a few at a time, the rest is told when to return, and all are synced', async () => {
  const narrow = await startTestBroker({
    databaseUrl: world.db.url,
    env: {
      BROKKR__BROKER__ENCRYPTION_KEY: world.broker.encryptionKey,
      BROKKR__LOG__LEVEL: 'info',
      BROKKR__FEED__SNAPSHOTS: '16',
      BROKKR__FEED__SNAPSHOTS_WAITING: String(size('S14.streams') / 10),
    },
  })
  const label = unique('l')
  for (let n = 0; n < 5; n += 1) await world.submit((await world.stack([label])).id, `${n}`)
  const count = size('S14.streams')
  const agents = await world.crowd(count, label)
  let refused = 0
  const connect = async (agent: (typeof agents)[number]): Promise<Follower> => {
    for (;;) {
      const stream = await world.follow(agent, { at: narrow })
      if (stream.status === 200) return stream
      expect(stream.status).toBe(503)
      refused += 1
      stream.close()
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
  const streams = await Promise.all(agents.map(connect))
  for (const stream of streams) expect((await stream.frame('snapshot_end')).count).toBe(5)
  expect(refused).toBeGreaterThan(0)
  for (const stream of streams) stream.close()
  await narrow.kill()
}, 180_000)

test('[S31] a broker that goes down gives every stream a bookmark and a bye at its pace, and all resume elsewhere without a snapshot', async () => {
  const env = {
    BROKKR__BROKER__ENCRYPTION_KEY: world.broker.encryptionKey,
    BROKKR__LOG__LEVEL: 'info',
    BROKKR__FEED__DRAIN_PER_SECOND: '200',
  }
  const going = await startTestBroker({ databaseUrl: world.db.url, env })
  const label = unique('l')
  const stack = await world.stack([label])
  const agents = await world.crowd(100, label)
  const streams = await Promise.all(agents.map((agent) => world.follow(agent, { at: going })))
  for (const stream of streams) await stream.frame('snapshot_end')
  const object = await world.submit(stack.id, 'before')
  const stopped = going.stop()
  const late = await world.submit(stack.id, 'while going')
  const byes = await Promise.all(streams.map((stream) => stream.frame('bye')))
  expect(await stopped).toBe(0)
  expect(byes.every(({ reason, cursor }) => reason === 'drain' && cursor !== null)).toBe(true)
  expect(new Set(byes.map(({ retry_after_ms }) => retry_after_ms)).size).toBeGreaterThan(10)
  const again = await Promise.all(agents.map((agent, n) => world.follow(agent, { cursor: byes[n]!.cursor! })))
  for (const [n, stream] of again.entries()) {
    expect(await stream.frame('hello')).toMatchObject({ mode: 'resume' })
    const has = (id: string) => [...streams[n]!.frames, ...stream.frames].some((frame) => frame.type === 'put' && frame.object?.id === id)
    await waitFor('the last object', () => has(late.id))
    expect(has(object.id) || has(late.id)).toBe(true)
    expect(stream.frames.some((frame) => frame.type === 'snapshot_begin')).toBe(false)
    stream.close()
  }
}, 120_000)

test('a stream whose agent fell silent is let go one check later, one whose agent beats its heart stays', async () => {
  const [alive, silent] = [await world.agent(), await world.agent()]
  beat(alive)
  const kept = await world.follow(alive)
  await kept.frame('snapshot_end')
  const beating = setInterval(() => beat(alive), 200)
  const dropped = await world.follow(silent)
  await dropped.ended
  expect(dropped.frames.some((frame) => frame.type === 'bye')).toBe(false)
  expect(kept.frames.some((frame) => frame.type === 'bye')).toBe(false)
  clearInterval(beating)
  kept.close()
})
