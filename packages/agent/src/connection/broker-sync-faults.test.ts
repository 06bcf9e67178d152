// The agent's follower against real brokers and a real database, over links that break in all the ways that links break.
// long: waits out dead and silent streams
import type { StackId } from '@brokkr/contract/wire.ts'
import { type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { startBrokerProxy } from '@brokkr/testing/faults/broker-proxy.ts'
import { startFaultProxy } from '@brokkr/testing/faults/fault-proxy.ts'
import { startSwitchProxy } from '@brokkr/testing/faults/switch-proxy.ts'
import { type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { followBroker, type RealFollow } from '../test-parts/real-follow.ts'
import { closeAfter } from '../test-parts/scripted-broker.ts'

let world: FeedWorld
/** Another process on the same database. */
let other: TestBroker
const quick = {
  BROKKR__LOG__LEVEL: 'info',
  BROKKR__FEED__PING_SECONDS: '0.2',
  BROKKR__FEED__DEAD_SECONDS: '2',
  BROKKR__FEED__FAR_END_CHECK_SECONDS: '0.3',
}
beforeAll(async () => {
  world = await feedWorld(quick)
  other = await world.broker.sibling()
  return () => Promise.all([world.broker.kill(), other.kill()])
})
const placeOf = ({ url }: { url: string }) => ({ host: '127.0.0.1', port: Number(new URL(url).port) })
const metric = async ({ url }: TestBroker, name: string, labels: Record<string, string> = {}): Promise<number> => {
  const line = (await (await fetch(`${url}/metrics`)).text())
    .split('\n')
    .find(
      (text) =>
        (text.startsWith(`${name}{`) || text.startsWith(`${name} `)) &&
        Object.entries(labels).every(([key, value]) => text.includes(`${key}="${value}"`)),
    )
  return Number(/ (\S+)$/.exec(line ?? '')?.[1] ?? 0)
}
const snapshots = (broker: TestBroker, reason?: string) =>
  metric(broker, 'brokkr_stream_starts_total', { mode: 'snapshot', ...(reason === undefined ? {} : { reason }) })
const resumes = (broker: TestBroker) => metric(broker, 'brokkr_stream_starts_total', { mode: 'resume' })
const synced = (followed: RealFollow) =>
  waitFor('a proven list', () => followed.verified.length > 0 && followed.follow.state.cursor !== null)
const has = (followed: RealFollow, stackId: string, objectId: string) =>
  waitFor('the object to be here', () => followed.wanted().get(stackId)?.objectId === objectId, {
    onTimeout: () => `transport ${followed.follow.transport}, ${JSON.stringify([...followed.wanted()])}`,
  })

test('[S11] a snapshot cut by a broker crash has no effect, and the next one is complete', async () => {
  const label = unique('l')
  const agent = await world.agent([label])
  // Ten objects of 100 KB to a page of 1 MiB, fifteen pages.
  await world.manyStacks(agent, { count: 150, label, bytes: 100_000 })
  const dying = await world.broker.sibling()
  const link = await startFaultProxy({ target: placeOf(dying) })
  const address = await startSwitchProxy({ target: { host: '127.0.0.1', port: link.port } })
  closeAfter(() => Promise.all([link.close(), address.close()]).then(() => undefined))
  const before = await followBroker(address.url, agent)
  await synced(before)
  const { state } = before.follow
  await before.stop()
  // What it holds stays, and a complete list is asked for.
  state.cursor = null
  link.throttle(6_000_000, 'toClient')
  const bytesBefore = link.bytes.toClient
  const followed = await followBroker(address.url, agent, { map: state })
  await waitFor('ten pages', () => link.bytes.toClient - bytesBefore > 10.5 * 1024 * 1024, { everyMs: 5 })
  await dying.kill('SIGKILL')
  expect(followed.verified).toEqual([])
  expect(state.cursor).toBeNull()
  const [had, removed] = [await snapshots(other), (await world.wanted(agent)).keys().next().value!]
  await world.tenant.client.stacksRemoveLabel({ params: { id: removed, label } })
  address.switchTo(placeOf(other))
  await synced(followed)
  expect(await snapshots(other)).toBe(had + 1)
  // All that is taken away is what the complete list takes away.
  expect(followed.verified).toHaveLength(1)
  expect(followed.verified[0]!.listed.size).toBe(149)
  expect([...state.desired.removals.keys()]).toEqual([removed])
  expect(followed.wanted().size).toBe(149)
}, 90_000)

test('[S32] agents of a killed broker reconnect spread out and resume at another broker', async () => {
  const label = unique('l')
  const stacks = [await world.stack([label]), await world.stack([label])]
  const agents = await Promise.all(Array.from({ length: 6 }, () => world.agent([label])))
  const dying = await world.broker.sibling()
  // The first three see their connection end, the others hear nothing any more.
  const silent = await startFaultProxy({ target: placeOf(dying) })
  const [open, hidden] = [
    await startSwitchProxy({ target: placeOf(dying) }),
    await startSwitchProxy({ target: { host: '127.0.0.1', port: silent.port } }),
  ]
  const arrivals: number[] = []
  const after = await startBrokerProxy(other.url)
  after.break(({ path }) => {
    if (path.endsWith('/stream')) arrivals.push(performance.now())
    return { do: 'pass' }
  })
  closeAfter(() => Promise.all([silent.close(), open.close(), hidden.close(), after.close()]).then(() => undefined))
  const options = { deadMs: 4_000, reconnect: { baseMs: 600, maxMs: 2_000 } }
  const followers = await Promise.all(agents.map((agent, n) => followBroker(n < 3 ? open.url : hidden.url, agent, { options })))
  for (const followed of followers) await synced(followed)
  const [snapshotsBefore, resumesBefore] = [await snapshots(other), await resumes(other)]
  silent.halfOpen()
  await dying.kill('SIGKILL')
  const missed = [await world.submit(stacks[0]!.id, 'missed'), await world.submit(stacks[1]!.id, 'missed')]
  open.switchTo(placeOf(after))
  await waitFor('silence to be noticed', async () => (await followers[5]!.ends('silent')) > 0)
  hidden.switchTo(placeOf(after))
  for (const followed of followers) for (const [n, { id }] of missed.entries()) await has(followed, stacks[n]!.id, id)
  expect(await followers[0]!.ends('silent')).toBe(0)
  expect(await snapshots(other)).toBe(snapshotsBefore)
  expect(await resumes(other)).toBeGreaterThanOrEqual(resumesBefore + 6)
  for (const { query } of after.requests.filter(({ path }) => path.endsWith('/stream'))) expect(query.get('cursor')).not.toBeNull()
  for (const followed of followers) {
    expect(followed.follow.state.desired.removals.size).toBe(0)
    expect(followed.verified).toHaveLength(1)
  }
  // Not in one moment: each waits a different time.
  const sorted = arrivals.toSorted((a, b) => a - b)
  expect(sorted.at(-1)! - sorted[0]!).toBeGreaterThan(20)
}, 90_000)

test('[S38] pings keep a stream open through a balancer that closes idle connections', async () => {
  const label = unique('l')
  const stack = await world.stack([label])
  const agent = await world.agent([label])
  const [broker, quiet] = await Promise.all([
    world.broker.sibling({ BROKKR__FEED__STREAM_LIFE_SECONDS: '[1.3, 1.5]' }),
    world.broker.sibling({ BROKKR__FEED__PING_SECONDS: '30', BROKKR__FEED__CANARY_SECONDS: '600' }),
  ])
  const balancer = await startSwitchProxy({ target: placeOf(broker), idleMs: 1_000 })
  closeAfter(() => balancer.close())
  // Heartbeats go another way: here nothing but the stream says anything.
  const followed = await followBroker(balancer.url, agent, { hasHeart: false })
  const beat = setInterval(() => void agent.client.recordHeartbeat({ params: { id: agent.agent.id } }).catch(() => undefined), 200)
  closeAfter(() => clearInterval(beat))
  await synced(followed)
  await waitFor('several lives of the stream', async () => (await followed.ends('bye')) >= 3)
  expect(balancer.idleCuts).toBe(0)
  expect([await followed.ends('lost'), await followed.ends('silent')]).toEqual([0, 0])
  expect(await snapshots(broker)).toBe(1)
  const object = await world.submit(stack.id, 'at last')
  await has(followed, stack.id, object.id)
  await followed.stop()
  // The balancer does cut: a stream that says nothing for longer than it waits.
  balancer.switchTo(placeOf(quiet))
  const cutOff = await followBroker(balancer.url, agent, { hasHeart: false })
  await waitFor('a cut', () => balancer.idleCuts > 0)
  await cutOff.stop()
  await Promise.all([broker.kill(), quiet.kill()])
}, 90_000)

test('[S39] a half-open connection is closed by agent and broker after their timeouts', async () => {
  const label = unique('l')
  const stack = await world.stack([label])
  const agent = await world.agent([label])
  const broker = await world.broker.sibling()
  const link = await startFaultProxy({ target: placeOf(broker) })
  closeAfter(() => link.close())
  const followed = await followBroker(link.url, agent, { options: { deadMs: 1_000 } })
  await synced(followed)
  expect(await metric(broker, 'brokkr_stream_open', { follower: 'agent' })).toBe(1)
  link.halfOpen()
  await waitFor('the agent to notice', async () => (await followed.ends('silent')) >= 1)
  await waitFor('the broker to free the stream', async () => (await metric(broker, 'brokkr_stream_open', { follower: 'agent' })) === 0)
  expect(followed.wanted().size).toBe(1)
  const object = await world.submit(stack.id, 'meanwhile')
  link.heal()
  await has(followed, stack.id, object.id)
  expect(followed.verified).toHaveLength(1)
  await followed.stop()
  await broker.kill()
}, 60_000)

test('[S37] the agent uses long poll after two buffered streams, and streams again later', async () => {
  const label = unique('l')
  const stack = await world.stack([label])
  const agent = await world.agent([label])
  const proxy = await startBrokerProxy(other.url)
  closeAfter(() => proxy.close())
  const isStream = ({ path }: { path: string }) => path.endsWith('/stream')
  proxy.break((request) => (isStream(request) ? { do: 'buffer' } : { do: 'pass' }))
  const followed = await followBroker(proxy.url, agent, { options: { silentMs: 600, longPollMs: 1_500, transportRetryMs: 4_000 } })
  await waitFor('a long poll', () => followed.follow.transport === 'longpoll')
  const waits = proxy.requests.filter(isStream).map(({ query }) => query.has('wait'))
  expect(waits.slice(0, 3)).toEqual([false, false, true])
  await synced(followed)
  for (let n = 0; n < 3; n += 1) await has(followed, stack.id, (await world.submit(stack.id, `${n}`)).id)
  await world.tenant.client.stacksRemoveLabel({ params: { id: stack.id, label } })
  await waitFor('the stack to leave', () => followed.wanted().size === 0)
  proxy.heal()
  await waitFor('a stream again', () => followed.follow.transport === 'stream')
  const added = await world.stack([label])
  await has(followed, added.id, (await world.submit(added.id, 'streamed')).id)
  expect(followed.follow.transport).toBe('stream')
}, 60_000)

interface Line {
  readonly id: string
  readonly checksum: string
}
const flipped = (text: string) => text.replace(/.$/, (digit) => (digit === '0' ? '1' : '0'))
/** Corruptions of one stack of the desired state by a flipped bit. */
const flips: ((stack: { rev: number; digestEntry: Line | null }) => object)[] = [
  ({ rev }) => ({ rev: rev ^ 4 }),
  ({ digestEntry }) => ({ digestEntry: { ...digestEntry, id: flipped(digestEntry!.id) } }),
  ({ digestEntry }) => ({ digestEntry: { ...digestEntry, checksum: flipped(digestEntry!.checksum) } }),
]

test('[S45] a digest check detects a corrupt rev, object or checksum; a snapshot repairs it', async () => {
  for (const flip of flips) {
    const label = unique('l')
    const [stack, next] = [await world.stack([label]), await world.stack([label])]
    const object = await world.submit(stack.id, 'right')
    await world.submit(next.id, 'beside it')
    const agent = await world.agent([label])
    const followed = await followBroker(other.url, agent, { digestMs: 400 })
    await synced(followed)
    const { desired } = followed.follow.state
    const right = desired.summary()
    const mismatches = await metric(other, 'brokkr_stream_digest_checks_total', { result: 'mismatch' })
    const repairs = await snapshots(other, 'digest')
    const held = desired.stacks.get(stack.id as StackId)!
    desired.stacks.set(stack.id as StackId, { ...held, ...flip(held) })
    expect(desired.summary()).not.toEqual(right)
    const now = () => followed.follow.state.desired.summary()
    await waitFor('the repair', () => JSON.stringify(now()) === JSON.stringify(right))
    expect(followed.wanted().get(stack.id)).toEqual({ rev: 1, objectId: object.id })
    expect(await metric(other, 'brokkr_stream_digest_checks_total', { result: 'mismatch' })).toBeGreaterThan(mismatches)
    expect(await snapshots(other, 'digest')).toBeGreaterThan(repairs)
    expect(followed.follow.state.desired.removals.size).toBe(0)
    await followed.stop()
  }
})

test('[S47] digest checks and snapshots follow their timers for short and long streams', async () => {
  const follow = async (life: string) => {
    const label = unique('l')
    await world.submit((await world.stack([label])).id, 'x')
    const agent = await world.agent([label])
    const broker = await world.broker.sibling({ BROKKR__FEED__STREAM_LIFE_SECONDS: life })
    // A day in three seconds; a check every 0.6 s.
    const followed = await followBroker(broker.url, agent, { digestMs: 600, options: { snapshotMs: 3_000 } })
    await synced(followed)
    await waitFor('two daily lists', async () => (await snapshots(broker, 'daily')) >= 2)
    expect(await metric(broker, 'brokkr_stream_digest_checks_total', { result: 'match' })).toBeGreaterThanOrEqual(3)
    expect(await metric(broker, 'brokkr_stream_digest_checks_total', { result: 'mismatch' })).toBe(0)
    expect(await snapshots(broker, 'first')).toBe(1)
    expect(await snapshots(broker, 'digest')).toBe(0)
    const byes = await followed.ends('bye')
    if (life === '[600, 600]') expect(byes).toBe(0)
    else expect(byes).toBeGreaterThan(2)
    expect(followed.wanted().size).toBe(1)
    await followed.stop()
    await broker.kill()
  }
  await Promise.all([follow('[0.7, 0.9]'), follow('[600, 600]')])
}, 180_000)
