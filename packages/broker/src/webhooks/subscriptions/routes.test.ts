// Webhook subscriptions over the wire: what is taken, what is refused and how, and that addresses, credentials and secrets never come
// back, wherever one looks.
import { randomUUID } from 'node:crypto'
import { type Client, createClient } from '@brokkr/contract/client.ts'
import { webhookEventTypes } from '@brokkr/contract/webhooks/event-types.ts'
import { startTestBroker, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { database, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import { beforeAll, expect, test } from 'vitest'
import { startReceiver } from '../delivery/receiver.fixture.ts'

let broker: TestBroker
let db: TestDatabase
let admin: Client
beforeAll(async () => {
  db = await database()
  broker = await startTestBroker({ databaseUrl: db.url, env: { BROKKR__BROKER__WEBHOOK_ALLOWED_HOSTS: 'inner.example.test' } })
  admin = broker.admin
  return () => broker.kill()
})
type Body = Parameters<Client['createWebhook']>[0]['body']
const usual: Body = { name: 'hook', url: 'https://93.184.216.34/path', event_types: ['stack.*'] }
const create = (settings: Partial<Body> = {}) => admin.createWebhook({ body: { ...usual, ...settings } })
const sql = async (text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> => {
  const client = await db.connect()
  try {
    return (await client.query<Record<string, unknown>>(text, values)).rows
  } finally {
    await client.end()
  }
}

test('a subscription gets defaults, and its secret is shown once', async () => {
  const { signing_secret, ...made } = await create()
  expect(signing_secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
  expect(made).toMatchObject({
    name: 'hook',
    has_url: true,
    has_auth_header: false,
    event_types: ['stack.*'],
    filters: null,
    target_labels: null,
    enabled: true,
    max_retries: 5,
    timeout_seconds: 30,
    created_by: 'admin',
    unknown_event_types: [],
  })
  expect(await admin.getWebhook({ params: { id: made.id } })).toEqual(made)
  expect((await admin.listWebhooks({})).find(({ id }) => id === made.id)).toEqual(made)
})

test('unknown event names are stored, and known ones are listed', async () => {
  const patterns = ['stack.created', 'no.such.event', 'moon.*', 'workorder.*']
  expect((await create({ event_types: patterns })).unknown_event_types).toEqual(['no.such.event', 'moon.*'])
  expect(await admin.listEventTypes({})).toEqual([...webhookEventTypes])
})

const long = (chars: number) => 'x'.repeat(chars)
const bad: [string, Record<string, unknown>, number, string][] = [
  ['an empty url', { url: '' }, 400, 'url_required'],
  ['another scheme', { url: 'ftp://example.com/' }, 400, 'invalid_url_scheme'],
  ['a file', { url: 'file:///etc/passwd' }, 400, 'invalid_url_scheme'],
  ['no url at all', { url: 'not a url' }, 400, 'invalid_url_scheme'],
  ['no host', { url: 'http://' }, 422, 'invalid_webhook'],
  ['a user name', { url: 'https://user@example.com/' }, 422, 'invalid_webhook'],
  ['a password', { url: 'https://user:pass@example.com/' }, 422, 'invalid_webhook'],
  ['a fragment', { url: 'https://example.com/#x' }, 422, 'invalid_webhook'],
  ['a url of 2049 characters', { url: `https://example.com/${long(2029)}` }, 422, 'invalid_webhook'],
  ['an empty name', { name: ' ' }, 400, 'invalid_webhook'],
  ['a name of 256', { name: long(256) }, 400, 'invalid_webhook'],
  ['no event types', { event_types: [] }, 400, 'invalid_webhook'],
  ['51 event types', { event_types: Array.from({ length: 51 }, () => 'a.b') }, 422, 'invalid_webhook'],
  ['an event type that is no pattern', { event_types: ['stack'] }, 422, 'invalid_webhook'],
  ['a header of two lines', { auth_header: 'a\r\nX-Other: b' }, 422, 'invalid_webhook'],
  ['a header of 4097 bytes', { auth_header: long(4097) }, 422, 'invalid_webhook'],
  ['eleven retries', { max_retries: 11 }, 422, 'invalid_webhook'],
  ['fewer than no retries', { max_retries: -1 }, 422, 'invalid_webhook'],
  ['no time', { timeout_seconds: 0 }, 422, 'invalid_webhook'],
  ['too much time', { timeout_seconds: 301 }, 422, 'invalid_webhook'],
  ['a label with a blank', { target_labels: ['a b'] }, 422, 'invalid_webhook'],
  ['a filter that is no id', { filters: { agent_id: 'no' } }, 422, 'invalid_request_body'],
  ['a filter of an older release', { filters: { labels: ['a'] } }, 422, 'unsupported_field'],
  ['a field of an older release', { validate: true }, 422, 'unsupported_field'],
  ['event types that are a text', { event_types: 'x' }, 422, 'invalid_request_body'],
]
test.each(bad)('%s is refused, when it is made and when it is changed', async (_, settings, status, code) => {
  const { id } = await create()
  await expect(create(settings)).rejects.toMatchObject({ status, code })
  await expect(admin.updateWebhook({ params: { id }, body: settings })).rejects.toMatchObject({ status, code })
})

test('[X21] private addresses are refused in every spelling without a connection', async () => {
  const inner = await startReceiver()
  const { port } = new URL(inner.url)
  const { id } = await create()
  const hosts = [
    '127.0.0.1',
    '2130706433',
    '0x7f.1',
    '127.1',
    '[::1]',
    '[::ffff:169.254.169.254]',
    '[::ffff:127.0.0.1]',
    'localhost',
    'a.localhost',
  ]
  const nets = [
    '10.0.0.1',
    '192.168.1.1',
    '172.16.0.1',
    '100.64.0.1',
    '169.254.169.254',
    '198.18.0.1',
    '192.0.0.1',
    '0.0.0.0',
    '255.255.255.255',
    '224.0.0.1',
  ]
  for (const host of [...hosts, ...nets, '[fd00:ec2::254]', '[fe80::1]', '[64:ff9b::7f00:1]', '[2002:7f00:1::]']) {
    const url = `http://${host}:${port}/`
    const refused = { status: 422, code: 'invalid_webhook' }
    await expect(create({ url }), host).rejects.toMatchObject(refused)
    await expect(admin.updateWebhook({ params: { id }, body: { url } }), host).rejects.toMatchObject(refused)
  }
  expect(inner.connections).toBe(0)
  await inner.close()
})

test('[X21] an address forbidden after it was stored gets no connection', async () => {
  const inner = await startReceiver()
  // Agents may reach what we may not, so it was taken; now the row says that we deliver.
  const { id } = await create({ url: `${inner.url}/x`, target_labels: ['edge'], event_types: ['stack.created'] })
  await expect(admin.updateWebhook({ params: { id }, body: { target_labels: [] } })).rejects.toMatchObject({
    code: 'invalid_webhook',
    status: 422,
  })
  await expect(admin.testWebhook({ params: { id } })).rejects.toMatchObject({ code: 'webhook_test_failed' })
  await sql('update webhook_subscriptions set target_labels = null where id = $1', [id])
  const { generator } = await admin.createGenerator({ body: { name: unique('g') } })
  await admin.createStack({ body: { name: unique('s'), generator_id: generator.id } })
  await expect
    .poll(() => admin.listDeliveries({ params: { id } }), { timeout: 30_000 })
    .toMatchObject([{ status: 'failed', attempts: 1, last_error: expect.stringContaining('loopback') as string }])
  expect(inner.connections).toBe(0)
  await inner.close()
})

test('an allowed host is accepted by its exact name', async () => {
  await create({ url: 'http://inner.example.test/x' })
})

test('a subscription update keeps null and omitted fields', async () => {
  const { signing_secret: _, ...made } = await create({ auth_header: 'a', filters: { agent_id: randomUUID() }, target_labels: ['l'] })
  const change = (body: object) => admin.updateWebhook({ params: { id: made.id }, body })
  expect(await change({})).toEqual(made)
  expect(await change({ name: null, auth_header: null, filters: null, target_labels: null, enabled: null })).toEqual(made)
  const changed = await change({ name: 'other', max_retries: 0, target_labels: [], enabled: false, has_url: false, id: randomUUID() })
  expect(changed).toEqual({ ...made, name: 'other', max_retries: 0, target_labels: [], enabled: false, updated_at: changed.updated_at })
  expect(changed.updated_at > made.updated_at).toBe(true)
})

test('an update with an old ETag is refused', async () => {
  const { id } = await create()
  const ask = (method: string, headers: Record<string, string>, body?: object) =>
    fetch(`${broker.url}/api/v1/webhooks/${id}`, {
      method,
      headers: { authorization: `Bearer ${broker.adminPak}`, 'content-type': 'application/json', ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  const tag = (await ask('GET', {})).headers.get('etag')!
  expect((await ask('GET', { 'if-none-match': tag })).status).toBe(304)
  expect((await ask('PUT', { 'if-match': tag }, { name: 'a' })).status).toBe(200)
  expect((await ask('PUT', { 'if-match': tag }, { name: 'b' })).status).toBe(412)
})

test('a deleted subscription returns 404 and loses its deliveries', async () => {
  const { id } = await create()
  await sql(`insert into webhook_deliveries (id, subscription_id, event_type, event_id, payload) values ($1, $2, 'a.b', $1, '')`, [
    randomUUID(),
    id,
  ])
  await admin.deleteWebhook({ params: { id } })
  expect(await sql('select from webhook_deliveries where subscription_id = $1', [id])).toEqual([])
  for (const params of [{ id }, { id: randomUUID() }]) {
    const gone = { status: 404, code: 'webhook_not_found' }
    await expect(admin.getWebhook({ params })).rejects.toMatchObject(gone)
    await expect(admin.updateWebhook({ params, body: {} })).rejects.toMatchObject(gone)
    await expect(admin.deleteWebhook({ params })).rejects.toMatchObject(gone)
    await expect(admin.testWebhook({ params })).rejects.toMatchObject(gone)
    await expect(admin.rotateWebhookSecret({ params })).rejects.toMatchObject(gone)
    await expect(admin.listDeliveries({ params })).rejects.toMatchObject(gone)
    await expect(admin.replayDeliveries({ params, body: { since: new Date().toISOString() } })).rejects.toMatchObject(gone)
  }
  await expect(admin.replayDelivery({ params: { id } })).rejects.toMatchObject({ status: 404, code: 'delivery_not_found' })
})

test('deliveries are listed newest first with filters and pages', async () => {
  const { id } = await create()
  await sql(
    `insert into webhook_deliveries (id, subscription_id, event_type, event_id, payload, status, created_at, completed_at)
     select gen_random_uuid(), $1, case when n % 2 = 0 then 'x.even' else 'x.odd' end, gen_random_uuid(), n::text, 'success', now() - n * interval '1 hour', now()
     from generate_series(1, 120) n`,
    [id],
  )
  const payloads = (rows: readonly { payload: string }[]) => rows.map(({ payload }) => Number(payload))
  const list = async (query: NonNullable<Parameters<Client['listDeliveries']>[0]['query']>) =>
    payloads(await admin.listDeliveries({ params: { id }, query }))
  const from = (first: number, count: number) => Array.from({ length: count }, (_, n) => first + n)
  expect(await list({})).toEqual(from(1, 50))
  expect(await list({ limit: 2, offset: 3 })).toEqual([4, 5])
  expect(await list({ status: 'dead' })).toEqual([])
  expect(await list({ status: 'success', limit: 1000 })).toEqual(from(1, 120))
  await expect(list({ offset: 10_001 })).rejects.toMatchObject({ code: 'invalid_query_parameter' })
  const headers = { authorization: `Bearer ${broker.adminPak}` }
  const first = await fetch(`${broker.url}/api/v1/webhooks/${id}/deliveries?limit=40&offset=10`, { headers })
  expect(payloads((await first.json()) as never)).toEqual(from(11, 40))
  const [, next = ''] = /<([^>]+)>; rel="next"/.exec(first.headers.get('link') ?? '') ?? []
  expect(payloads((await (await fetch(`${broker.url}${next}`, { headers })).json()) as never)).toEqual(from(51, 40))
  const since = new Date(Date.now() - 9.5 * 3_600_000).toISOString()
  expect(payloads(await admin.listAllDeliveries({ query: { event_type: 'x.odd', since } }))).toEqual([1, 3, 5, 7, 9])
})

test('[X3] webhook address, credential and secret are encrypted and never shown', async () => {
  const canary = `S3CR3T${randomUUID()}`
  const pak = (await admin.createAdminPak({ body: { name: unique('reader'), readonly: true } })).pak
  const keyed = createClient({ baseUrl: broker.url, pak: () => broker.adminPak, userAgent: 't' })
  const made = await keyed.createWebhook({
    body: { ...usual, url: `https://93.184.216.34/${canary}-url`, auth_header: `Bearer ${canary}-auth` },
  })
  await fetch(`${broker.url}/api/v1/webhooks`, {
    method: 'POST',
    headers: { authorization: `Bearer ${broker.adminPak}`, 'content-type': 'application/json', 'idempotency-key': canary },
    body: JSON.stringify({ ...usual, url: `https://93.184.216.34/${canary}-url` }),
  })
  const params = { id: made.id }
  await admin.updateWebhook({ params, body: { url: `https://93.184.216.34/${canary}-new`, auth_header: `${canary}-new` } })
  const { signing_secret } = await admin.rotateWebhookSecret({ params })
  await admin.createWebhook({ body: { ...usual, url: `https://u:${canary}@example.com/` } }).catch(() => undefined)
  const reader = broker.clientOf(pak)
  const shown = [
    await reader.listWebhooks({}),
    await reader.getWebhook({ params }),
    await reader.listAuditLogs({ query: { limit: 1000 } }),
    await sql(
      `select w::text as row from webhook_subscriptions w union all select a::text from audit_logs a union all select c::text from change_log c
      union all select i::text from idempotency_keys i where i.key <> $1`,
      [canary],
    ),
    broker.text(),
  ]
  for (const secret of [canary, made.signing_secret, signing_secret, made.signing_secret.slice(6), signing_secret.slice(6)])
    expect(JSON.stringify(shown)).not.toContain(secret)
  const actions = (await admin.listAuditLogs({ query: { resource_id: made.id } })).logs.map(({ action, details }) => [
    action,
    details?.['fields'],
  ])
  expect(actions).toEqual([
    ['webhook.secret_rotated', undefined],
    ['webhook.updated', ['url', 'auth_header']],
    ['webhook.created', undefined],
  ])
})
