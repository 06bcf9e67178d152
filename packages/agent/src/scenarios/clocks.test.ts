// Clocks that are wrong: agents an hour ahead and an hour behind, a broker whose clock steps back and forth. What counts is the order
// of commits and the time of the database.
// long: processes under clocks that are wrong
import type { StackId } from '@brokkr/contract/wire.ts'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { unique } from '@brokkr/testing/broker.ts'
import { type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { readWatch } from '@brokkr/testing/stream-reader.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { followBroker, type RealFollow } from '../test-parts/real-follow.ts'

let world: FeedWorld
/** Each limit is shorter than a step of the broker's clock and longer than a slow machine needs. */
const limits = {
  BROKKR__FEED__DEAD_SECONDS: '120',
  BROKKR__FEED__RETENTION_HOURS: '0.07',
  BROKKR__BROKER__AGENT_DISCONNECT_AFTER_SECONDS: '120',
  BROKKR__BROKER__AUTH_CACHE_TTL_SECONDS: '3600',
}
const often = {
  BROKKR__FEED__PING_SECONDS: '0.2',
  BROKKR__FEED__FAR_END_CHECK_SECONDS: '0.3',
  BROKKR__FEED__CANARY_SECONDS: '0.3',
  BROKKR__TASKS__AGENT_LIVENESS__EVERY_SECONDS: '0.3',
  BROKKR__TASKS__CHANGE_LOG_CLEANUP__EVERY_SECONDS: '0.3',
}
beforeAll(async () => {
  world = await feedWorld({ ...limits, ...often }, { main: 'packages/broker/src/change-feed/test-parts/jumping-broker.ts' })
  return () => world.broker.kill()
})
/** Right → five minutes behind → ten ahead → right. */
const step = () => void process.kill(world.broker.pid, 'SIGUSR2')
const skewsMs = [3_600_000, -3_600_000]
const metrics = async () => (await fetch(`${world.broker.url}/metrics`)).text()
const keyFor = async (seconds: number) => {
  const [{ at } = { at: '' }] = await world.sql<{ at: string }>(
    `select to_char((now() + $1 * interval '1 second') at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as at`,
    [seconds],
  )
  const { pak } = await world.broker.admin.createAdminPak({ body: { name: unique('k'), expires_at: at } })
  return pak
}
const has = (followed: RealFollow, stackId: string, objectId: string) =>
  waitFor('the object to be here', () => followed.wanted().get(stackId)?.objectId === objectId)

test('[S40] clock skew and steps change neither order, expiry, liveness nor removal', async () => {
  const label = unique('l')
  const [stack, leaving] = [await world.stack([label]), await world.stack([label])]
  const agents = [await world.agent([label]), await world.agent([label])]
  const silent = await world.agent([label])
  const followers = await Promise.all(
    agents.map((agent, n) =>
      followBroker(world.broker.url, agent, { clock: { ...systemClock, now: () => systemClock.now() + skewsMs[n]! } }),
    ),
  )
  for (const followed of followers) await waitFor('a proven list', () => followed.follow.state.cursor !== null)
  const early = followers[0]!.follow.state.cursor!
  const tell = async (n: number, given: { stackId: string; rev: number; objectId: string | null; phase: 'applied' | 'removed' }) => {
    const observed_at = new Date(Date.now() + skewsMs[n]!).toISOString()
    const report = { stack_id: given.stackId, rev: given.rev, object_id: given.objectId, phase: given.phase, observed_at } as never
    const body = { session: 1_000_000, n: given.rev + (given.phase === 'removed' ? 100 : 0), stacks: [report] }
    return agents[n]!.client.reportStatus({ params: { id: agents[n]!.agent.id }, body })
  }
  const states = async () =>
    Object.fromEntries(
      (await world.sql<{ id: string; state: string }>('select id, connection_state as state from agents')).map(({ id, state }) => [
        id,
        state,
      ]),
    )

  // Order: at each place of the broker's clock a change arrives, and what agents tell of it is taken, whatever time they give.
  const revs: (number | undefined)[][] = [[], []]
  const lasting = await keyFor(300)
  for (const place of ['right', 'five minutes behind', 'ten minutes ahead', 'right again']) {
    const object = await world.submit(stack.id, place)
    for (const [n, followed] of followers.entries()) {
      await has(followed, stack.id, object.id)
      revs[n]!.push(followed.wanted().get(stack.id)?.rev)
      const { accepted } = await tell(n, { stackId: stack.id, rev: object.sequence_id, objectId: object.id, phase: 'applied' })
      expect(accepted, place).toBe(1)
    }
    // Expiry of keys and what they hold open: neither sooner nor later than the database says.
    expect((await world.broker.clientOf(lasting).verifyPak({})).admin, place).toBe(true)
    if (place === 'five minutes behind') await expectExpiry(place)
    // Liveness: heard is heard.
    const { agents: shown } = await world.tenant.client.getStackStatus({ params: { id: stack.id } })
    expect(
      shown.filter(({ agent_id }) => agent_id !== silent.agent.id).map(({ stale }) => stale),
      place,
    ).toEqual([false, false])
    step()
  }
  for (const each of revs) expect(each).toEqual([1, 2, 3, 4])

  // Five minutes behind once more: silence is noticed, the log is cleaned, a removal is a removal.
  await silent.client.recordHeartbeat({ params: { id: silent.agent.id } })
  expect((await states())[silent.agent.id]).toBe('connected')
  await world.sql(`update agent_liveness set last_seen_at = now() - interval '130 seconds' where agent_id = $1`, [silent.agent.id])
  await waitFor('silence to be noticed', async () => (await states())[silent.agent.id] === 'disconnected')
  for (const { agent } of agents) expect((await states())[agent.id]).toBe('connected')
  const resumed = await world.follow(agents[0]!, { cursor: early })
  expect(await resumed.frame('hello')).toMatchObject({ mode: 'resume' })
  resumed.close()
  await world.tenant.client.stacksRemoveLabel({ params: { id: leaving.id, label } })
  for (const [n, followed] of followers.entries()) {
    await waitFor('the removal', () => followed.follow.state.desired.getAction(leaving.id as StackId).do === 'remove')
    expect((await tell(n, { stackId: leaving.id, rev: 0, objectId: null, phase: 'removed' })).accepted).toBe(1)
    expect([...followed.wanted().keys()]).toEqual([stack.id])
  }
  await world.sql(`insert into feed_marks select now() - interval '10 minutes', $1::xid8`, [await xidAfter(early)])
  await waitFor('the log to be cleaned', async () => (await world.sql(`select from feed_state where floor_xid > '0'::xid8`)).length === 1)
  const late = await world.follow(agents[0]!, { cursor: early })
  expect(await late.frame('snapshot_begin')).toMatchObject({ reason: 'gone' })
  late.close()

  // Nobody's stream ended for all that, and what is told of lag is measured by one clock, or says that it is an estimate.
  for (const followed of followers) {
    for (const how of ['bye', 'silent', 'lost', 'refused', 'broken']) expect(await followed.ends(how), how).toBe(0)
    expect(followed.verified).toHaveLength(1)
  }
  const text = await metrics()
  expect(Number(/^brokkr_feed_lag_seconds (\S+)/m.exec(text)?.[1])).toBeLessThan(60)
  expect(text).toMatch(/# HELP brokkr_stream_propagation_seconds .*estimated/)
  for (const stage of ['seen', 'written', 'applied']) {
    const figure = (of: string) =>
      Number(new RegExp(`brokkr_stream_propagation_seconds_${of}\\{stage="${stage}"\\} (\\S+)`).exec(text)?.[1])
    expect(figure('count'), stage).toBeGreaterThan(0)
    expect(figure('sum') / figure('count'), stage).toBeLessThan(60)
  }
}, 240_000)

/** A key that ends in three seconds of the database is good until then and for nothing from then on, nor is the watch it opened. */
async function expectExpiry(place: string): Promise<void> {
  const pak = await keyFor(3)
  const watch = await readWatch(world.broker.url, { pak, scopes: ['kind:stack'] })
  await waitFor(`the key to expire, ${place}`, async () => {
    const answer = await fetch(`${world.broker.url}/api/v1/auth/pak`, { method: 'POST', headers: { authorization: `Bearer ${pak}` } })
    return answer.status === 401
  })
  if (watch.status === 200) await watch.frame('bye', ({ reason }) => reason === 'revoked')
  else expect(watch.status).toBe(401)
}

/** A transaction that the cursor does not cover and everybody has read long ago. */
async function xidAfter(cursor: string): Promise<string> {
  const text = Buffer.from(cursor.split('.')[0]!, 'base64url').toString()
  return String(BigInt(text.split('|')[3]!.split(':')[1]!) + 1n)
}
