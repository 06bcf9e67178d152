// long: starts more than one broker
import { randomUUID } from 'node:crypto'
import { unique } from '@brokkr/testing/broker.ts'
import { manualClock } from '@brokkr/testing/clock.ts'
import { type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { createPeerBrokers } from './notifications.ts'

const channel = 'brokkr_feed_public'
/** Neither tests nor canaries in between, so that what is heard is what was submitted. */
const quiet = { BROKKR__FEED__LISTENER_TEST_SECONDS: '[3600, 5]', BROKKR__FEED__CANARY_SECONDS: '3600' }
let world: FeedWorld
beforeAll(async () => {
  world = await feedWorld(quiet)
  return () => world.broker.kill()
})

test('a broker sends NOTIFY only after it heard a peer, then at once', async () => {
  const { broker } = world
  await waitFor('the listener', async () => /^brokkr_feed_listener_up 1$/m.test(await (await fetch(`${broker.url}/metrics`)).text()))
  const stack = await world.stack()
  // What was still on its way from before the listener heard anything is over by then.
  for (let n = 0; n < 10; n += 1) await world.submit(stack.id, 'before')
  const ear = await world.db.connect()
  const heard: string[] = []
  ear.on('notification', ({ payload }) => heard.push(payload ?? ''))
  await ear.query(`listen ${channel}`)
  const say = (payload: string) => ear.query('select pg_notify($1, $2)', [channel, payload])

  for (let n = 0; n < 5; n += 1) await world.submit(stack.id, 'alone')
  // A command beside the broker names nobody and listens to nothing.
  await say('')
  await world.submit(stack.id, 'still alone')
  // Notifications come in the order of their commits: what the broker had sent before would be here.
  await say('')
  await waitFor('both of our own', () => heard.length >= 2)
  expect(heard).toEqual(['', ''])

  const neighbour = randomUUID()
  await say(neighbour)
  await waitFor('the broker to answer', () => heard.some((payload) => payload !== '' && payload !== neighbour))
  const before = heard.length
  await world.submit(stack.id, 'together')
  await waitFor('a notification', () => heard.length > before)
  await ear.end()
})

test('two brokers discover and notify each other', async () => {
  // Without its slow poll it learns of nothing but by notification.
  const other = await world.broker.sibling({ ...quiet, BROKKR__FEED__POLL_MS: '3600000', BROKKR__FEED__STALE_SECONDS: '[3600, 7200]' })
  const label = unique('l')
  const stack = await world.stack([label])
  const agent = await world.agent([label])
  const stream = await world.follow(agent, { at: other })
  await stream.frame('snapshot_end')
  for (let n = 0; n < 20; n += 1) {
    const { id } = await world.submit(stack.id, `n ${n}`)
    await stream.frame('put', (frame) => frame.object?.id === id)
  }
  stream.close()
  await other.kill()
})

test('a broker without notifications of others has no peers while it listens', () => {
  const peers = createPeerBrokers({ clock: manualClock(), processId: 'me', testEveryMs: 15_000 })
  expect(peers.hasNoPeers(false)).toBe(false)
  expect(peers.hasNoPeers(true)).toBe(true)
  expect([peers.recordNotification('me'), peers.recordNotification('')]).toEqual([false, false])
  expect(peers.hasNoPeers(true)).toBe(true)
  expect([peers.recordNotification('another'), peers.recordNotification('another')]).toEqual([true, false])
  expect(peers.hasNoPeers(true)).toBe(false)
  expect(peers.hasNoPeers(false)).toBe(false)
})

test.each([
  { testEveryMs: 15_000, forMs: 600_000 },
  { testEveryMs: 1_200_000, forMs: 4_800_000 },
])('a peer is remembered for $forMs ms with a test interval of $testEveryMs ms', async ({ testEveryMs, forMs }) => {
  const clock = manualClock()
  const peers = createPeerBrokers({ clock, processId: 'me', testEveryMs })
  peers.recordNotification('another')
  await clock.advance(forMs - 1)
  expect(peers.hasNoPeers(true)).toBe(false)
  await clock.advance(1)
  expect(peers.hasNoPeers(true)).toBe(true)
  expect(peers.recordNotification('another')).toBe(true)
  expect(peers.hasNoPeers(true)).toBe(false)
})
