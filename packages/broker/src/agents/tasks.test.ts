// An agent that falls silent, as everybody sees it: by the database's time, in every process, once.
// long: starts more than one broker
import { type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { subscribe } from '../webhooks/delivery/subscribe.fixture.ts'

let world: FeedWorld
let other: TestBroker
beforeAll(async () => {
  world = await feedWorld({ BROKKR__TASKS__AGENT_LIVENESS__EVERY_SECONDS: '0.2' })
  other = await world.broker.sibling()
  return () => Promise.all([world.broker.kill(), other.kill()])
})

test('[S50] an agent without heartbeats becomes stale and is disconnected once', async () => {
  await subscribe(world, ['agent.connected', 'agent.disconnected'])
  const label = unique('l')
  const stack = await world.stack([label])
  const agent = await world.agent([label])
  await agent.client.recordHeartbeat({ params: { id: agent.agent.id } })
  const object = await world.submit(stack.id, 'x')
  const report = { stack_id: stack.id, rev: 1, object_id: object.id, phase: 'applied', observed_at: new Date().toISOString() } as never
  await agent.client.reportStatus({ params: { id: agent.agent.id }, body: { session: 1, n: 1, stacks: [report] } })
  /** What webhooks are told of it, in the order of time. */
  const told = () =>
    world.sql<{ type: string; data: Record<string, string> }>(
      `select event_type as type, payload::json->'data' as data from webhook_deliveries
       where payload::json->'data'->>'agent_id' = $1 order by created_at`,
      [agent.agent.id],
    )
  expect((await told()).map(({ type }) => type)).toEqual(['agent.connected'])
  // Every change of the state is written down by the database itself.
  await world.sql('create table transitions (before text, after text)')
  await world.sql(`create function note_transition() returns trigger language plpgsql as $$
    begin insert into transitions values (old.connection_state, new.connection_state); return null; end $$`)
  await world.sql(`create trigger note_transition after update of connection_state on agents for each row
    when (old.connection_state <> new.connection_state) execute function note_transition()`)
  const silentFor = (seconds: number) =>
    world.sql(`update agent_liveness set last_seen_at = now() - $2 * interval '1 second' where agent_id = $1`, [agent.agent.id, seconds])
  const isStale = async () => (await world.tenant.client.getStackStatus({ params: { id: stack.id } })).agents[0]?.stale
  const state = async () => (await world.broker.admin.getAgent({ params: { id: agent.agent.id } })).connection_state
  const looks = async () => (await world.broker.admin.listTasks({})).find(({ name }) => name === 'agent-liveness')?.last_run_at
  const lookedAgain = async () => {
    const before = await looks()
    await waitFor('the task to look', async () => (await looks()) !== before)
    await waitFor('and once more', async () => (await looks()) !== before)
  }
  await silentFor(80)
  await lookedAgain()
  expect([await isStale(), await state(), (await told()).length]).toEqual([false, 'connected', 1])
  await silentFor(100)
  expect(await isStale()).toBe(true)
  await waitFor('disconnected', async () => (await state()) === 'disconnected')
  await lookedAgain()
  expect(await world.sql('select * from transitions')).toEqual([{ before: 'connected', after: 'disconnected' }])
  const [, gone, ...more] = await told()
  expect([gone?.type, more]).toEqual(['agent.disconnected', []])
  const [seen] = await world.sql<{ last: Date }>('select last_seen_at as last from agent_liveness where agent_id = $1', [agent.agent.id])
  const { name, cluster_name, id: agent_id } = agent.agent
  expect(gone?.data).toEqual({ agent_id, name, cluster_name, last_seen_at: expect.any(String) as string })
  expect(Date.parse(gone!.data['last_seen_at']!)).toBe(seen!.last.getTime())
  // A sign of life brings it back, whichever process hears it, and once: both are told at the same time.
  const at = [world.broker.clientOf(agent.pak), other.clientOf(agent.pak)]
  await Promise.all(Array.from({ length: 10 }, (_, n) => at[n % 2]!.recordHeartbeat({ params: { id: agent.agent.id } })))
  expect((await told()).map(({ type }) => type)).toEqual(['agent.connected', 'agent.disconnected', 'agent.connected'])
  expect([await isStale(), await state()]).toEqual([false, 'connected'])
})
