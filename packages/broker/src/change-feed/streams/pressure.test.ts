import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import { startTestBroker, type TestAgent, unique } from '@brokkr/testing/broker.ts'
import { startFaultProxy } from '@brokkr/testing/faults/fault-proxy.ts'
import { type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { readStream, type StreamReader } from '@brokkr/testing/stream-reader.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, onTestFinished, test } from 'vitest'

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

/** What a process says of its streams right now. */
const figure = async ({ url }: { url: string }, name: string): Promise<number> =>
  Number(new RegExp(`^brokkr_stream_${name} (\\S+)$`, 'm').exec(await (await fetch(`${url}/metrics`)).text())?.[1] ?? 0)
/** The largest value that was seen until it is stopped. */
function watchLargest(broker: { url: string }, name: string): { largest(): Promise<number> } {
  let largest = 0
  const over = new AbortController()
  const watching = (async () => {
    while (!over.signal.aborted) {
      largest = Math.max(largest, await figure(broker, name))
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  })()
  onTestFinished(() => over.abort())
  // Whoever asks for the result hears of a failure; a test that failed before does not ask.
  watching.catch(() => undefined)
  return {
    largest: async () => {
      over.abort()
      await watching
      return largest
    },
  }
}

const beat = (agent: TestAgent): void => void agent.client.recordHeartbeat({ params: { id: agent.agent.id } }).catch(() => undefined)

test('[S28] a consumer that stops reading is closed as slow and does not stall others', async () => {
  const label = unique('l')
  const stacks = await mapBounded(Array.from({ length: 10 }), 1, () => world.stack([label]))
  const [stuck, fine] = [await world.agent([label]), await world.agent([label])]
  const stuckStream = await world.follow(stuck)
  await stuckStream.frame('snapshot_end')
  const fineStream = await world.follow(fine)
  await fineStream.frame('snapshot_end')
  const beating = [fine, stuck].map((agent) => setInterval(() => beat(agent), 300))
  onTestFinished(() => beating.forEach((timer) => clearInterval(timer)))
  stuckStream.pause()
  const [bytes, keys] = [watchLargest(world.broker, 'buffered_bytes'), watchLargest(world.broker, 'pending_keys')]
  let last = { id: '', stack: '' }
  const isLetGo = async () => (await figure(world.broker, 'closes_total\\{reason="slow"\\}')) >= 1
  // Far more than would fit if every frame were kept, and on until sockets buffer no more, which is as much as the system likes.
  for (let n = 0; n < 120 || (n < 1_200 && !(await isLetGo())); n += 1) {
    const stack = stacks[n % stacks.length]!
    last = { id: (await world.submit(stack.id, `${n} ${'x'.repeat(100_000)}`)).id, stack: stack.id }
    await fineStream.frame('put', (frame) => frame.object?.id === last.id)
  }
  await waitFor('the stuck one to be let go', isLetGo)
  // Bounded by what it follows, not by what happened meanwhile.
  expect(await keys.largest()).toBeLessThanOrEqual(stacks.length + 2)
  expect(await bytes.largest()).toBeLessThanOrEqual(4 * 1024 * 1024)
  stuckStream.resume()
  await stuckStream.ended
  expect(stuckStream.wanted().get(last.stack)?.objectId).not.toBe(last.id)
  // It resumes by its own cursor, or from the start, and has everything.
  const again = await world.follow(stuck)
  await again.frame('snapshot_end')
  expect(again.wanted().get(last.stack)?.objectId).toBe(last.id)
  again.close()
  fineStream.close()
}, 180_000)

test('[S29] a slow consumer gets the latest state of ten stacks instead of a backlog', async () => {
  const slowBroker = await startTestBroker({
    databaseUrl: world.db.url,
    env: { BROKKR__BROKER__ENCRYPTION_KEY: world.broker.encryptionKey, BROKKR__LOG__LEVEL: 'info' },
  })
  const proxy = await startFaultProxy({ target: { host: '127.0.0.1', port: Number(new URL(slowBroker.url).port) } })
  const label = unique('l')
  const stacks = await mapBounded(Array.from({ length: 10 }), 1, () => world.stack([label]))
  const agent = await world.agent([label])
  const stream = await readStream(proxy.url, { agentId: agent.agent.id, pak: agent.pak })
  await stream.frame('snapshot_end')
  proxy.throttle(10_000, 'toClient')
  const keys = watchLargest(slowBroker, 'pending_keys')
  const submitted: string[] = []
  for (let n = 0; n < 200; n += 1) submitted.push((await world.submit(stacks[n % 10]!.id, `${n} ${'y'.repeat(60_000)}`)).id)
  const newest = submitted.slice(-10)
  // Never more than one frame for each of the ten, however many were made; a look may wait beside them.
  expect(await keys.largest()).toBeLessThanOrEqual(11)
  proxy.heal()
  await waitFor(
    'the newest of all ten',
    () => newest.every((id) => [...stream.wanted().values()].some(({ objectId }) => objectId === id)),
    { limitMs: 60_000 },
  )
  const puts = stream.frames.filter((frame) => frame.type === 'put' && frame.object !== null).length
  expect(puts).toBeLessThan(200)
  stream.close()
  await proxy.close()
  await slowBroker.kill()
}, 180_000)

test('[S14] snapshots of many agents are admitted in turns and all complete', async () => {
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
  const waits = new Set<number>()
  const connect = async (agent: (typeof agents)[number]): Promise<StreamReader> => {
    for (;;) {
      // So many at once may be cut off before they could say who they are; they come again, as agents do.
      const stream = await world.follow(agent, { at: narrow }).catch(() => null)
      if (stream?.status === 200) return stream
      if (stream === null) {
        await new Promise((resolve) => setTimeout(resolve, 100))
        continue
      }
      expect(stream.status).toBe(503)
      refused += 1
      waits.add(Number(stream.headers['retry-after']))
      stream.close()
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
  const active = watchLargest(narrow, 'snapshots_active')
  const streams = await Promise.all(agents.map(connect))
  for (const stream of streams) expect((await stream.frame('snapshot_end')).count).toBe(5)
  expect(refused).toBeGreaterThan(0)
  expect(await active.largest()).toBeLessThanOrEqual(16)
  expect([...waits].every((seconds) => seconds >= 1 && seconds <= 10)).toBe(true)
  expect(waits.size).toBeGreaterThan(1)
  for (const stream of streams) stream.close()
  await narrow.kill()
}, 180_000)

test('[S31] a stopping broker sends each stream a bookmark and a bye at a limited rate', async () => {
  const count = size('S31.streams')
  const env = {
    BROKKR__BROKER__ENCRYPTION_KEY: world.broker.encryptionKey,
    BROKKR__LOG__LEVEL: 'info',
    BROKKR__FEED__DRAIN_PER_SECOND: String(count / 2),
    // These followers have no hearts.
    BROKKR__FEED__DEAD_SECONDS: '3600',
  }
  const [going, elsewhere] = await Promise.all([1, 2].map(() => startTestBroker({ databaseUrl: world.db.url, env })))
  const label = unique('l')
  const stack = await world.stack([label])
  const agents = await world.crowd(count, label)
  // So many callers without a key at once would not be let in.
  const streams = await mapBounded(agents, 100, (agent) => world.follow(agent, { at: going! }))
  for (const stream of streams) await stream.frame('snapshot_end')
  const object = await world.submit(stack.id, 'before')
  const stopped = going!.stop()
  const late = await world.submit(stack.id, 'while going')
  const endedAtMs: number[] = []
  for (const stream of streams) void stream.ended.then(() => endedAtMs.push(performance.now()))
  const byes = await Promise.all(streams.map((stream) => stream.frame('bye')))
  expect(await stopped).toBe(0)
  await Promise.all(streams.map(({ ended }) => ended))
  // Two seconds at this pace: not all at once.
  expect(Math.max(...endedAtMs) - Math.min(...endedAtMs)).toBeGreaterThan(1_000)
  expect(byes.every(({ reason, cursor }) => reason === 'drain' && cursor !== null)).toBe(true)
  expect(new Set(byes.map(({ retry_after_ms }) => retry_after_ms)).size).toBeGreaterThan(10)
  const again = await mapBounded(agents, 100, (agent, n) => world.follow(agent, { at: elsewhere!, cursor: byes[n]!.cursor! }))
  for (const [n, stream] of again.entries()) {
    expect(await stream.frame('hello')).toMatchObject({ mode: 'resume' })
    const has = (id: string) => [...streams[n]!.frames, ...stream.frames].some((frame) => frame.type === 'put' && frame.object?.id === id)
    await waitFor('the last object', () => has(late.id))
    expect(has(object.id) || has(late.id)).toBe(true)
    expect(stream.frames.some((frame) => frame.type === 'snapshot_begin')).toBe(false)
    stream.close()
  }
  await elsewhere!.kill()
}, 180_000)

test('a stream is closed after its agent stops heartbeats and stays while they continue', async () => {
  const [alive, silent] = [await world.agent(), await world.agent()]
  beat(alive)
  const kept = await world.follow(alive)
  await kept.frame('snapshot_end')
  const beating = setInterval(() => beat(alive), 200)
  onTestFinished(() => clearInterval(beating))
  const dropped = await world.follow(silent)
  await dropped.ended
  expect(dropped.frames.some((frame) => frame.type === 'bye')).toBe(false)
  expect(kept.frames.some((frame) => frame.type === 'bye')).toBe(false)
  kept.close()
})
