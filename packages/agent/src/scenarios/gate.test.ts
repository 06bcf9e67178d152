// A gate over what agents acknowledged: it waits for so many of them at a sequence, over a link that loses acknowledgements.
import type { StackId } from '@brokkr/contract/wire.ts'
import { unique } from '@brokkr/testing/broker.ts'
import { startBrokerProxy } from '@brokkr/testing/faults/broker-proxy.ts'
import { type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { followBroker } from '../test-parts/real-follow.ts'
import { closeAfter } from '../test-parts/scripted-broker.ts'

let world: FeedWorld
beforeAll(async () => {
  world = await feedWorld({ BROKKR__FEED__PING_SECONDS: '0.2' })
  return () => world.broker.kill()
})
type Deployed = { readonly id: string; readonly sequence_id: number }
const observed_at = new Date().toISOString()

/** How many agents count: fresh, in phase applied, with that object or a later one, told in this epoch. */
async function arrived(stackId: string, sequence: number): Promise<number> {
  const { agents } = await world.tenant.client.getStackStatus({ params: { id: stackId } })
  const told = await world.sql<{ agent_id: string }>(
    'select agent_id from agent_stack_status s join feed_state f on f.epoch = s.epoch where s.stack_id = $1',
    [stackId],
  )
  const inEpoch = new Set(told.map(({ agent_id }) => agent_id))
  return agents.filter(
    ({ agent_id, phase, sequence_id, stale }) => inEpoch.has(agent_id) && phase === 'applied' && (sequence_id ?? 0) >= sequence && !stale,
  ).length
}

test('[S41] a gate opens after retried acknowledgments of its sequence, never a lower one', async () => {
  const label = unique('l')
  const stack = await world.stack([label])
  const agents = [await world.agent([label]), await world.agent([label]), await world.agent([label])]
  const proxy = await startBrokerProxy(world.broker.url)
  closeAfter(() => proxy.close())
  const followers = await Promise.all(agents.map((agent) => followBroker(proxy.url, agent)))
  for (const followed of followers) await waitFor('a session', () => followed.follow.state.cursor !== null)
  const acknowledge = (n: number, object: Deployed, phase: 'applied' | 'pending' | 'failed' = 'applied') =>
    followers[n]!.outbox.report({
      stack_id: stack.id as StackId,
      rev: object.sequence_id,
      object_id: object.id as never,
      phase,
      attempts: 1,
      observed_at,
    })
  /** Past the agent's own outbox: late, repeated, in whatever order. */
  const tell = (n: number, object: Deployed, place: { session: number; n: number }) => {
    const row = { stack_id: stack.id, rev: object.sequence_id, object_id: object.id, phase: 'applied', observed_at } as never
    return agents[n]!.client.reportStatus({ params: { id: agents[n]!.agent.id }, body: { ...place, stacks: [row] } })
  }
  const phases = async () => {
    const { agents: told } = await world.tenant.client.getStackStatus({ params: { id: stack.id } })
    return new Set(told.map(({ phase }) => phase))
  }
  /** Two of three. */
  const isOpenAt = async (sequence: number) => (await arrived(stack.id, sequence)) >= 2

  const first = await world.submit(stack.id, '1')
  for (const n of [0, 1, 2]) acknowledge(n, first)
  await waitFor('the gate of the first', () => isOpenAt(1))
  const second = await world.submit(stack.id, '2')
  // All three at the lower one, two of them on their way or in trouble with this one: shut.
  await waitFor('all three at the first', async () => (await arrived(stack.id, 1)) === 3)
  expect(await arrived(stack.id, 2)).toBe(0)
  acknowledge(1, second, 'pending')
  acknowledge(2, second, 'failed')
  await waitFor('what two are about', async () => (await phases()).size === 3)
  expect(await arrived(stack.id, 2)).toBe(0)

  // Lost once each: one acknowledgement never arrives, the answer to another is lost on its way back.
  const lost: string[] = []
  proxy.break(({ path, method }) => {
    if (method !== 'POST' || !path.endsWith('/status') || lost.includes(path)) return { do: 'pass' }
    lost.push(path)
    return lost.length === 1 ? { do: 'reset' } : { do: 'change', answer: () => ({ status: 502, headers: {}, body: '' }) }
  })
  acknowledge(0, second)
  await waitFor('the first loss', () => lost.length === 1)
  await waitFor('the first retry', async () => (await arrived(stack.id, 2)) === 1)
  // The same one again is still one agent.
  const { session, n } = (
    await world.sql<{ session: string; n: string }>('select session, n from agent_stack_status where agent_id = $1', [agents[0]!.agent.id])
  )[0]!
  for (const place of [
    { session: Number(session), n: Number(n) },
    { session: Number(session), n: Number(n) + 1_000 },
  ])
    await tell(0, second, place)
  expect(await arrived(stack.id, 2)).toBe(1)
  expect(await isOpenAt(2)).toBe(false)
  acknowledge(1, second)
  await waitFor('the second loss', () => lost.length === 2)
  await waitFor('the gate to open after the retry', () => isOpenAt(2))

  // What still tells of the first revision, late or in a newer session, neither opens nor shuts anything.
  for (const agent of [0, 1]) expect(await tell(agent, first, { session: 9_000_000, n: 1 })).toMatchObject({ accepted: 0, ignored: 1 })
  expect([await isOpenAt(2), await isOpenAt(3)]).toEqual([true, false])
  // A later object passes an earlier gate as well.
  const third = await world.submit(stack.id, '3')
  for (const agent of [0, 1]) await tell(agent, third, { session: 9_000_000, n: 2 })
  expect([await isOpenAt(2), await isOpenAt(3)]).toEqual([true, true])
  // In another history nothing has been acknowledged yet.
  await world.broker.admin.newEpoch({})
  expect(await isOpenAt(2)).toBe(false)
  for (const agent of [0, 1]) await tell(agent, second, { session: 9_000_001, n: 1 })
  expect([await isOpenAt(2), await isOpenAt(3)]).toEqual([true, false])
})
