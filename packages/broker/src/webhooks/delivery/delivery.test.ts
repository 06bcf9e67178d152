// Deliveries to a real receiver: what is sent, how it is signed, what is tried again and when, and that one hung receiver is nobody
// else's matter. Times between two tries are made short by SQL, by the clock that counts.
import { createHmac } from 'node:crypto'
import type { WebhookDelivery } from '@brokkr/contract/webhooks/subscription.ts'
import { unique } from '@brokkr/testing/broker.ts'
import { type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { loopbackAllowed, type Received, type Receiver, startReceiver } from './receiver.fixture.ts'

let world: FeedWorld
let receiver: Receiver
beforeAll(async () => {
  world = await feedWorld({ ...loopbackAllowed, BROKKR__BROKER__WEBHOOK_DELIVERY_INTERVAL_SECONDS: '0.2' })
  receiver = await startReceiver()
  return async () => {
    await world.broker.kill()
    await receiver.close()
  }
})
beforeEach(() => {
  receiver.answer = (response) => void response.end('ok')
})

type Settings = Partial<Parameters<FeedWorld['broker']['admin']['createWebhook']>[0]['body']>
/** A webhook for one stack of its own, at a path of its own. */
async function hooked(settings: Settings = {}) {
  const stack = await world.stack()
  const path = `/${unique('hook')}`
  const body = {
    name: 'h',
    url: `${receiver.url}${path}`,
    event_types: ['deployment.created'],
    filters: { stack_id: stack.id },
    ...settings,
  }
  const webhook = await world.broker.admin.createWebhook({ body })
  const params = { id: webhook.id }
  return {
    webhook,
    stack,
    params,
    submit: () => world.submit(stack.id, 'x'),
    received: (): Received[] => receiver.received.filter((one) => one.path === path),
    deliveries: () => world.broker.admin.listDeliveries({ params }),
    /** The one delivery, once it looks so. */
    delivery: (status: WebhookDelivery['status'], attempts: number): Promise<WebhookDelivery> =>
      waitFor(
        `a delivery that is ${status} after ${attempts} tries`,
        async () => (await world.broker.admin.listDeliveries({ params })).find((one) => one.status === status && one.attempts === attempts),
        { onTimeout: async () => JSON.stringify(await world.broker.admin.listDeliveries({ params })) },
      ),
    /** The next try is due now. */
    hurry: () =>
      world.sql(`update webhook_deliveries set next_retry_at = now() where subscription_id = $1 and status = 'failed'`, [webhook.id]),
  }
}
const secondsTo = ({ next_retry_at, last_attempt_at }: WebhookDelivery): number =>
  Math.round((Date.parse(next_retry_at!) - Date.parse(last_attempt_at!)) / 1000)

test('a delivery is one signed POST with headers and credential', async () => {
  const hook = await hooked({ auth_header: 'Bearer receiver-secret' })
  const object = await hook.submit()
  const delivery = await hook.delivery('success', 1)
  const [sent, ...more] = hook.received()
  expect(more).toEqual([])
  expect(sent!.method).toBe('POST')
  expect(sent!.body).toBe(delivery.payload)
  expect(JSON.parse(sent!.body)).toMatchObject({
    id: delivery.event_id,
    event_type: 'deployment.created',
    data: { deployment_object_id: object.id, stack_id: hook.stack.id, sequence_id: object.sequence_id },
  })
  const { headers } = sent!
  expect(headers).toMatchObject({
    'content-type': 'application/json',
    accept: '*/*',
    authorization: 'Bearer receiver-secret',
    'user-agent': 'brokkr/0.1.0',
    'x-brokkr-event-type': 'deployment.created',
    'x-brokkr-delivery-id': delivery.id,
    'webhook-id': delivery.id,
  })
  const signed = `${delivery.id}.${String(headers['webhook-timestamp'])}.${sent!.body}`
  const key = Buffer.from(hook.webhook.signing_secret.replace('whsec_', ''), 'base64')
  expect(headers['webhook-signature']).toBe(`v1,${createHmac('sha256', key).update(signed).digest('base64')}`)
  expect(Math.abs(Number(headers['webhook-timestamp']) - Date.now() / 1000)).toBeLessThan(300)
  expect(delivery).toMatchObject({ last_status_code: 200, last_error: null, acquired_by: null, acquired_until: null, next_retry_at: null })
})

test('deliveries are signed with both secrets during a rotation', async () => {
  const hook = await hooked()
  const { signing_secret: fresh } = await world.broker.admin.rotateWebhookSecret({ params: hook.params })
  expect(fresh).not.toBe(hook.webhook.signing_secret)
  await hook.submit()
  await hook.delivery('success', 1)
  const [{ headers, body }] = hook.received() as [Received]
  const signatures = [fresh, hook.webhook.signing_secret].map((secret) => {
    const signed = `${String(headers['webhook-id'])}.${String(headers['webhook-timestamp'])}.${body}`
    return `v1,${createHmac('sha256', Buffer.from(secret.slice(6), 'base64'))
      .update(signed)
      .digest('base64')}`
  })
  expect(headers['webhook-signature']).toBe(signatures.join(' '))
  await world.sql(`update webhook_subscriptions set old_secret_until = now() where id = $1`, [hook.webhook.id])
  await hook.submit()
  await waitFor('the second', () => hook.received().length === 2)
  expect(String(hook.received()[1]!.headers['webhook-signature']).split(' ')).toHaveLength(1)
})

test('a failing receiver is retried after 2, 4 and 8 seconds and then dead', async () => {
  receiver.answer = (response) => void response.writeHead(500).end('no\r\n\u0000thanks')
  const hook = await hooked({ max_retries: 4 })
  await hook.submit()
  for (const [attempts, seconds] of [
    [1, 2],
    [2, 4],
    [3, 8],
  ] as const) {
    const failed = await hook.delivery('failed', attempts)
    expect([secondsTo(failed), failed.last_error, failed.last_status_code]).toEqual([
      seconds,
      'HTTP 500 Internal Server Error: no thanks',
      500,
    ])
    await hook.hurry()
  }
  const dead = await hook.delivery('dead', 4)
  expect(dead.completed_at).not.toBeNull()
  const ids = hook.received().map(({ headers }) => headers['webhook-id'])
  expect(ids).toEqual([dead.id, dead.id, dead.id, dead.id])
  const { logs } = await world.broker.admin.listAuditLogs({ query: { action: 'webhook.delivery_failed', resource_id: hook.webhook.id } })
  expect(logs).toMatchObject([{ actor_type: 'system', details: { delivery_id: dead.id, attempts: 4, status_code: 500 } }])
})

test.each([
  [404, {}, 'dead', null],
  [410, {}, 'dead', null],
  [429, { 'retry-after': '90' }, 'failed', 90],
  [503, { 'retry-after': '1' }, 'failed', 2],
  [503, { 'retry-after': '999999' }, 'failed', 3600],
  [408, {}, 'failed', 2],
] as const)('an answer of %i with %j ends as %s', async (status, headers, ends, seconds) => {
  receiver.answer = (response) => void response.writeHead(status, headers).end()
  const hook = await hooked()
  await hook.submit()
  const delivery = await hook.delivery(ends, 1)
  expect(seconds === null ? delivery.next_retry_at : secondsTo(delivery)).toBe(seconds)
})

test('[X21] a redirect inward is never followed, and counts as a failure', async () => {
  const inner = await startReceiver()
  receiver.answer = (response) => void response.writeHead(302, { location: `${inner.url}/inner` }).end()
  const hook = await hooked()
  await hook.submit()
  expect(await hook.delivery('failed', 1)).toMatchObject({ last_status_code: 302, last_error: 'HTTP 302 Found' })
  expect(inner.connections).toBe(0)
  await inner.close()
})

test('an unreachable or slow receiver is retried, and its error names no path', async () => {
  const away = await startReceiver()
  await away.close()
  const [gone, slow] = [await hooked({ url: `${away.url}/s3cret-path` }), await hooked({ timeout_seconds: 1 })]
  receiver.answer = () => undefined
  await gone.submit()
  await slow.submit()
  const unreachable = await gone.delivery('failed', 1)
  expect([unreachable.last_status_code, unreachable.last_error]).toEqual([null, expect.stringContaining(away.url.slice(7))])
  expect(unreachable.last_error).not.toContain('s3cret')
  expect((await slow.delivery('failed', 1)).last_error).toContain('1000 ms')
})

test('a hung receiver uses four slots and does not delay others', async () => {
  const [hung, other] = [await hooked({ timeout_seconds: 60 }), await hooked()]
  receiver.answer = (response, { body }) => {
    if (!body.includes(hung.stack.id)) response.end()
  }
  for (let n = 0; n < 8; n += 1) await hung.submit()
  await waitFor('four to hang', () => hung.received().length >= 4)
  for (let n = 0; n < 20; n += 1) await other.submit()
  await waitFor('the others', async () => (await other.deliveries()).filter(({ status }) => status === 'success').length === 20)
  expect(hung.received()).toHaveLength(4)
  const states = (await hung.deliveries()).map(({ status }) => status).toSorted()
  expect(states).toEqual([...Array<string>(4).fill('acquired'), ...Array<string>(4).fill('pending')])
  await world.broker.admin.deleteWebhook({ params: hung.params })
})

test('a delivery that cannot be decrypted is dead at once', async () => {
  const hook = await hooked({ auth_header: 'x' })
  await world.sql(`update webhook_subscriptions set auth_sealed = url_sealed where id = $1`, [hook.webhook.id])
  await hook.submit()
  expect((await hook.delivery('dead', 1)).last_error).toBe('the auth_header of this webhook cannot be decrypted with any configured key')
  expect(hook.received()).toEqual([])
  const figures = await (await fetch(`${world.broker.url}/metrics`)).text()
  expect(figures).toContain('brokkr_webhook_decrypt_failures_total{field="auth_header",path="delivery"} 1')
  expect(figures).toMatch(/brokkr_webhook_deliveries_total\{result="success"\} \d+/)
})

test('a disabled subscription gets no delivery until it is enabled', async () => {
  receiver.answer = (response) => void response.writeHead(503).end()
  const hook = await hooked()
  await hook.submit()
  await hook.delivery('failed', 1)
  await world.broker.admin.updateWebhook({ params: hook.params, body: { enabled: false } })
  receiver.answer = (response) => void response.end()
  await hook.submit() // this process knows at once
  await hook.hurry()
  await hook.delivery('pending', 1)
  expect(await hook.deliveries()).toHaveLength(1)
  await world.broker.admin.updateWebhook({ params: hook.params, body: { enabled: true } })
  await hook.delivery('success', 2)
})

test('an expired lease is sent again and rejects the result of its former holder', async () => {
  const hook = await hooked()
  let isHanging = true
  const held: (() => void)[] = []
  // Others that failed before may be tried again just now.
  receiver.answer = (response, { body }) => {
    if (isHanging && body.includes(hook.stack.id)) held.push(() => response.writeHead(400).end())
    else response.end()
  }
  await hook.submit()
  await waitFor('it to hang', () => held.length === 1)
  isHanging = false
  await world.sql(`update webhook_deliveries set acquired_until = now() - interval '1 second' where subscription_id = $1`, [
    hook.webhook.id,
  ])
  const done = await hook.delivery('success', 1)
  held[0]!() // the first try is refused now, which must not count
  const stays = async () => (await hook.deliveries()).map(({ status, attempts }) => [status, attempts])
  await waitFor('the late end to be counted', async () =>
    (await (await fetch(`${world.broker.url}/metrics`)).text()).includes('brokkr_webhook_deliveries_total{result="lapsed"} 1'),
  )
  expect(await stays()).toEqual([['success', 1]])
  expect(hook.received().map(({ headers }) => headers['webhook-id'])).toEqual([done.id, done.id])
})

test('a test call sends one signed message and returns a cleaned response', async () => {
  const hook = await hooked({ auth_header: 'Bearer t' })
  const call = () => world.broker.admin.testWebhook({ params: hook.params })
  expect(await call()).toEqual({ success: true, status_code: 200, message: 'Test delivery successful' })
  const [{ body, headers }] = hook.received() as [Received]
  expect(JSON.parse(body)).toMatchObject({ event_type: 'webhook.test', data: { subscription_id: hook.webhook.id } })
  expect(headers).toMatchObject({ authorization: 'Bearer t', 'x-brokkr-event-type': 'webhook.test' })
  receiver.answer = (response) => void response.writeHead(418).end(`<b>\u001b[31m${'n'.repeat(2000)}`)
  const details = { status_code: 418, body: `<b> [31m${'n'.repeat(492)}` }
  await expect(call()).rejects.toMatchObject({ code: 'webhook_test_failed', status: 400, details })
  const away = await startReceiver()
  await away.close()
  await world.broker.admin.updateWebhook({ params: hook.params, body: { url: `${away.url}/s3cret` } })
  const refused = await call().catch((error: unknown) => error as Error & { details?: unknown })
  expect(refused).toMatchObject({ code: 'webhook_test_failed', details: undefined })
  expect((refused as Error).message).not.toContain('s3cret')
  expect(await hook.deliveries()).toEqual([])
})

test('dead deliveries are replayed as new ones, by id or by time range', async () => {
  receiver.answer = (response) => void response.writeHead(404).end()
  const hook = await hooked()
  const since = new Date(Date.now() - 60_000).toISOString()
  await hook.submit()
  await hook.submit()
  await waitFor(
    'both to be dead',
    async () => (await hook.deliveries()).every(({ status }) => status === 'dead') && (await hook.deliveries()).length === 2,
  )
  const [newer, older] = (await hook.deliveries()) as [WebhookDelivery, WebhookDelivery]
  receiver.answer = (response) => void response.end()
  const again = await world.broker.admin.replayDelivery({ params: { id: newer.id } })
  expect(again).toMatchObject({ replay_of: newer.id, event_id: newer.event_id, payload: newer.payload, status: 'pending', attempts: 0 })
  expect(again.id).not.toBe(newer.id)
  expect(await world.broker.admin.replayDeliveries({ params: hook.params, body: { since } })).toEqual({ count: 2 })
  await waitFor('three to arrive', async () => (await hook.deliveries()).filter(({ status }) => status === 'success').length === 3)
  const replays = hook.received().slice(2)
  expect(replays.map(({ body }) => body).toSorted()).toEqual([newer.payload, newer.payload, older.payload].toSorted())
  const body = { since, status: ['success' as const], event_types: ['stack.created'] }
  expect(await world.broker.admin.replayDeliveries({ params: hook.params, body })).toEqual({ count: 0 })
  expect(await world.broker.admin.replayDeliveries({ params: hook.params, body: { since, until: since } })).toEqual({ count: 0 })
})
