// Many events for many subscriptions, and a broker that is killed in the middle: every event reaches every subscription at
// least once, under one id, whoever sends it in the end.
// long: ten thousand deliveries
import { randomUUID } from 'node:crypto'
import { unique } from '@brokkr/testing/broker.ts'
import { type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { loopbackAllowed, type Receiver, startReceiver } from './receiver.fixture.ts'

let world: FeedWorld
let receiver: Receiver
beforeAll(async () => {
  world = await feedWorld({ ...loopbackAllowed, BROKKR__BROKER__WEBHOOK_DELIVERY_INTERVAL_SECONDS: '0.5' })
  receiver = await startReceiver()
  return async () => {
    await world.broker.kill()
    await receiver.close()
  }
})
const subscribe = (path: string, event_types: string[]) =>
  world.broker.admin.createWebhook({ body: { name: path, url: `${receiver.url}/${path}`, event_types } })
const left = async () =>
  (await world.sql<{ n: number }>(`select count(*)::int as n from webhook_deliveries where status not in ('success', 'dead')`))[0]!.n

/** So many reports of one agent about one revision, in batches. */
async function report(count: number): Promise<string[]> {
  const label = unique('l')
  const stack = await world.stack([label])
  const { agent, client } = await world.agent([label])
  const object = await world.submit(stack.id, 'x')
  const ids = Array.from({ length: count }, () => randomUUID())
  for (let at = 0; at < count; at += 200) {
    const event = { agent_id: agent.id, deployment_object_id: object.id, event_type: 'DEPLOY', status: 'SUCCESS' }
    await client.createEvents({ params: { id: agent.id }, body: { events: ids.slice(at, at + 200).map((id) => ({ id, ...event })) } })
  }
  return ids
}

test('a killed sender delivers every event at least once under the same id', async () => {
  const [events, subscriptions] = [size('webhooks.events'), size('webhooks.subscriptions')]
  const paths = Array.from({ length: subscriptions }, (_, n) => `kill-${n}`)
  for (const path of paths) await subscribe(path, ['deployment.applied'])
  const arrived = () => receiver.received.filter(({ path }) => path.startsWith('/kill-'))
  const ids = await report(events)
  await waitFor('a third to arrive', () => arrived().length > (events * subscriptions) / 3)
  await world.broker.kill()
  expect(await left()).toBeGreaterThan(0)
  // Leases of the dead lapse; nobody waits half a minute for it here.
  await world.sql(`update webhook_deliveries set acquired_until = now() where status = 'acquired'`)
  const again = await world.broker.again()
  await waitFor('the rest', async () => (await left()) === 0)
  const rows = await world.sql<{ id: string; payload: string; status: string; attempts: number }>(
    'select id, payload, status, attempts from webhook_deliveries',
  )
  expect(rows.filter(({ status }) => status !== 'success')).toEqual([])
  const textOf = new Map(rows.map(({ id, payload }) => [id, payload]))
  const seen = new Map<string, Set<string>>(paths.map((path) => [`/${path}`, new Set()]))
  for (const { path, headers, body } of arrived()) {
    expect(body).toBe(textOf.get(String(headers['webhook-id'])))
    seen.get(path)!.add((JSON.parse(body) as { data: { agent_event_id: string } }).data.agent_event_id)
  }
  for (const reached of seen.values()) expect([...reached].toSorted()).toEqual(ids.toSorted())
  // Twice is what was on its way when the broker died, and no more.
  expect(arrived().length - rows.length).toBeLessThanOrEqual(64)
  await again.kill()
})
