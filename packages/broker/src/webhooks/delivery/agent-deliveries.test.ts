// Deliveries that agents send: who may claim them, who is heard about them, and that a look wakes the right ones.
import { type TestAgent, unique } from '@brokkr/testing/broker.ts'
import { type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'

let world: FeedWorld
beforeAll(async () => {
  world = await feedWorld({ BROKKR__BROKER__WEBHOOK_DELIVERY_INTERVAL_SECONDS: '0.2' })
  return () => world.broker.kill()
})

/** A webhook that agents with both labels deliver, to an address that the broker itself may not reach. */
async function hooked(settings: object = {}) {
  const labels = [unique('edge'), unique('zone')]
  const stack = await world.stack()
  const webhook = await world.broker.admin.createWebhook({
    body: {
      name: 'by agents',
      url: 'http://10.1.2.3/hook',
      auth_header: 'Bearer inner',
      event_types: ['deployment.created'],
      filters: { stack_id: stack.id },
      target_labels: labels,
      ...settings,
    },
  })
  return {
    labels,
    webhook,
    stack,
    submit: () => world.submit(stack.id, 'x'),
    deliveries: () => world.broker.admin.listDeliveries({ params: { id: webhook.id } }),
  }
}
const claim = ({ client, agent }: TestAgent) => client.getPendingAgentWebhooks({ params: { agent_id: agent.id } })
const tell = ({ client }: TestAgent, id: string, body: { success: boolean; status_code?: number; error?: string }) =>
  client.reportDeliveryResult({ params: { id }, body })
const notHeld = { status: 403, code: 'delivery_not_acquired_by_agent' }

test('a delivery with labels is claimed once by an agent with all of them', async () => {
  const hook = await hooked()
  const [right, half, none] = [await world.agent(hook.labels), await world.agent(hook.labels.slice(0, 1)), await world.agent()]
  await hook.submit()
  expect([await claim(half), await claim(none)]).toEqual([[], []])
  const [mine, ...more] = await claim(right)
  expect(more).toEqual([])
  expect(await claim(right)).toEqual([])
  const [delivery] = await hook.deliveries()
  expect(mine).toEqual({
    id: delivery!.id,
    subscription_id: hook.webhook.id,
    event_type: 'deployment.created',
    payload: delivery!.payload,
    url: 'http://10.1.2.3/hook',
    auth_header: 'Bearer inner',
    timeout_seconds: 30,
    max_retries: 5,
    attempts: 0,
    headers: {
      'webhook-id': delivery!.id,
      'webhook-timestamp': expect.any(String) as string,
      'webhook-signature': expect.stringMatching(/^v1,/) as string,
    },
  })
  expect(delivery).toMatchObject({ status: 'acquired', acquired_by: right.agent.id, attempts: 0, last_attempt_at: null })
  await expect(tell(half, mine!.id, { success: true })).rejects.toMatchObject(notHeld)
  expect(await tell(right, mine!.id, { success: true, status_code: 204 })).toEqual({ status: 'success', delivery_id: mine!.id })
  await expect(tell(right, mine!.id, { success: true })).rejects.toMatchObject(notHeld)
  expect(await hook.deliveries()).toMatchObject([{ status: 'success', attempts: 1, acquired_by: right.agent.id, last_status_code: 204 }])
})

test('a failed agent delivery is retried until its limit or a permanent failure', async () => {
  const hook = await hooked({ max_retries: 2 })
  const [one, two] = [await world.agent(hook.labels), await world.agent(hook.labels)]
  await hook.submit()
  const [first] = await claim(one)
  const failed = await tell(one, first!.id, { success: false, status_code: 503, error: `busy\n${'x'.repeat(600)}` })
  expect(failed).toEqual({ status: 'failed', delivery_id: first!.id, attempts: 1, next_retry_at: expect.any(String) as string })
  expect((await hook.deliveries())[0]).toMatchObject({ acquired_by: null, last_error: `busy ${'x'.repeat(495)}` })
  await world.sql(`update webhook_deliveries set next_retry_at = now() where id = $1`, [first!.id])
  const [again] = await waitFor('it to be due', async () => ((await hook.deliveries())[0]!.status === 'pending' ? claim(two) : undefined))
  expect(again).toMatchObject({ id: first!.id, attempts: 1, payload: first!.payload })
  expect(await tell(two, first!.id, { success: false })).toEqual({
    status: 'dead',
    delivery_id: first!.id,
    attempts: 2,
    next_retry_at: null,
  })
  await hook.submit()
  const [hopeless] = await claim(one)
  expect(await tell(one, hopeless!.id, { success: false, status_code: 404 })).toMatchObject({ status: 'dead', attempts: 1 })
  const { logs } = await world.broker.admin.listAuditLogs({ query: { action: 'webhook.delivery_failed', resource_id: hook.webhook.id } })
  expect(logs.map(({ actor_id }) => actor_id)).toEqual([one.agent.id, two.agent.id])
})

test('an expired lease rejects the result of its former holder', async () => {
  const hook = await hooked()
  const [late, next] = [await world.agent(hook.labels), await world.agent(hook.labels)]
  await hook.submit()
  const [held] = await claim(late)
  await world.sql(`update webhook_deliveries set acquired_until = now() - interval '1 second' where id = $1`, [held!.id])
  await expect(tell(late, held!.id, { success: true })).rejects.toMatchObject(notHeld)
  const [taken] = await waitFor('it to be free', async () => {
    const claimed = await claim(next)
    return claimed.length > 0 && claimed
  })
  expect(taken!.id).toBe(held!.id)
  await expect(tell(late, held!.id, { success: true })).rejects.toMatchObject(notHeld)
  await tell(next, held!.id, { success: true })
})

test('ten at a time, oldest first, however many agents ask at once: no two get the same', async () => {
  const hook = await hooked()
  const agents = await Promise.all(Array.from({ length: 4 }, () => world.agent(hook.labels)))
  for (let n = 0; n < 25; n += 1) await hook.submit()
  const oldest = await claim(agents[0]!)
  const sequences = oldest.map(({ payload }) => (JSON.parse(payload) as { data: { sequence_id: number } }).data.sequence_id)
  expect(sequences).toEqual(Array.from({ length: 10 }, (_, n) => n + 1))
  const rest = (await Promise.all(agents.flatMap((agent) => [claim(agent), claim(agent)]))).flat()
  expect(rest).toHaveLength(15)
  expect(new Set([...oldest, ...rest].map(({ id }) => id)).size).toBe(25)
})

test('agents with the label of a delivery get a refresh hint', async () => {
  const hook = await hooked()
  const [right, other] = [await world.agent(hook.labels), await world.agent([unique('l')])]
  const [follower, idle] = [await world.follow(right), await world.follow(other)]
  const looks = (at: typeof follower) => at.frames.filter((frame) => frame.type === 'look' && frame.what === 'webhooks').length
  await Promise.all([follower.frame('hello'), idle.frame('hello')])
  await hook.submit()
  await waitFor('the look', () => looks(follower) === 1)
  expect(looks(idle)).toBe(0)
  follower.close()
  idle.close()
})
