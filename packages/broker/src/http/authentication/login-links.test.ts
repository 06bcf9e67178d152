// Sign-in links against real brokers: one use, their end, what they open, and the form of PAKs.
// long: starts more than one broker
import { createAgent, createGenerator, startTestBroker, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { runSql } from '@brokkr/testing/run-sql.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { ask } from '../server/http-call.fixture.ts'

let broker: TestBroker
let other: TestBroker
beforeAll(async () => {
  // Failures are limited per address; each test that fails on purpose names its own.
  broker = await startTestBroker({ env: { BROKKR__SERVER__TRUSTED_PROXIES: '127.0.0.1' } })
  other = await broker.sibling()
  return () => Promise.all([broker.kill(), other.kill()])
})

let address = 0
const from = () => ({ 'x-forwarded-for': `10.7.0.${++address}` })
const tokenOf = (url: string) => url.split('#')[1] ?? ''
const link = async (pak = broker.adminPak, body: { readonly?: boolean } = {}) => broker.clientOf(pak).createLoginLink({ body })
const exchange = (at: TestBroker, token: string, headers: Record<string, string> = from()) =>
  ask(at, 'POST /auth/exchange', { pak: null, body: { token }, headers })
const cookieOf = (answer: { header(name: string): string | null }) => (answer.header('set-cookie') ?? '').split(';')[0] ?? ''
const statusWith = async (at: TestBroker, cookie: string) => (await ask(at, 'GET /stacks', { pak: null, headers: { cookie } })).status

test('a link signs in once, in any process, with the rights of its PAK', async () => {
  const made = await link()
  expect(made.url).toMatch(new RegExp(`^${broker.url}/login#one-time-[1-9A-HJ-NP-Za-km-z]{10}-[1-9A-HJ-NP-Za-km-z]{31,33}$`))
  expect((Date.parse(made.expires_at) - Date.now()) / 60_000).toBeCloseTo(5, 0)
  const signedIn = await exchange(other, tokenOf(made.url))
  expect([signedIn.status, signedIn.json]).toEqual([201, { expires_at: expect.any(String) as string, readonly: false }])
  expect(signedIn.header('set-cookie')).toMatch(/^brokkr_session=[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Strict$/)
  for (const at of [broker, other]) expect(await statusWith(at, cookieOf(signedIn))).toBe(200)
  const again = await exchange(broker, tokenOf(made.url))
  expect([again.status, again.text, again.header('set-cookie')]).toEqual([401, '', null])
})

test('the token is stored as a hash, appears in no log and no audit entry, and both steps are audited', async () => {
  const made = await link()
  const long = tokenOf(made.url).split('-')[3] ?? 'none'
  const { status } = await exchange(broker, tokenOf(made.url))
  expect(status).toBe(201)
  for (const table of ['login_tokens', 'audit_logs', 'console_sessions'])
    expect(await runSql(broker.databaseUrl, `select from ${table} t where t::text like $1`, [`%${long}%`])).toEqual([])
  expect(`${broker.text()}${other.text()}`).not.toContain(long)
  const { logs } = await broker.admin.listAuditLogs({ query: { limit: 20 } })
  const linkId = logs.find(({ action }) => action === 'login_link.created')?.details?.['link_id']
  expect(linkId).toEqual(expect.any(String))
  const [session] = logs.filter(({ action }) => action === 'session.created')
  expect(session).toMatchObject({ actor_type: 'admin', details: { link_id: linkId, readonly: false } })
})

test('of forty concurrent exchanges through two processes one signs in', async () => {
  const token = tokenOf((await link()).url)
  const answers = await Promise.all(Array.from({ length: 40 }, (_, n) => exchange(n % 2 === 0 ? broker : other, token)))
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
  expect(answers.filter(({ status }) => status === 401)).toHaveLength(39)
  expect(answers.filter((answer) => answer.header('set-cookie') !== null)).toHaveLength(1)
})

test('links inherit read-only rights; agents and sessions cannot create them', async () => {
  const tenant = await createGenerator(broker)
  const reader = (await broker.admin.createAdminPak({ body: { name: unique('reader'), readonly: true } })).pak
  for (const made of [await link(reader), await link(tenant.pak, { readonly: true })])
    expect((await exchange(broker, tokenOf(made.url))).json).toMatchObject({ readonly: true })
  const signedIn = await exchange(broker, tokenOf((await link(tenant.pak)).url))
  const headers = { cookie: cookieOf(signedIn), origin: broker.url, 'x-brokkr-console': '1' }
  expect((await ask(broker, 'POST /auth/links', { pak: null, body: {}, headers })).code).toBe('forbidden')
  const created = await ask(broker, 'POST /stacks', { pak: null, body: { name: unique('s'), generator_id: tenant.generator.id }, headers })
  expect(created.status).toBe(201)
  const agent = await createAgent(broker, { generators: [tenant] })
  expect((await ask(broker, 'POST /auth/links', { pak: agent.pak })).code).toBe('forbidden')
})

test('a link ends with its time, and with the rotation or revocation of its PAK', async () => {
  const made = await broker.admin.createAdminPak({ body: { name: unique('k') } })
  const first = await link(made.pak)
  const rotated = await broker.admin.rotateAdminPak({ params: { id: made.id } })
  expect((await exchange(broker, tokenOf(first.url))).status).toBe(401)
  const second = await link(rotated.pak)
  await broker.admin.revokeAdminPak({ params: { id: made.id } })
  expect((await exchange(broker, tokenOf(second.url))).status).toBe(401)

  const tenant = await createGenerator(broker)
  const third = await link(tenant.pak)
  await broker.admin.deleteGenerator({ params: { id: tenant.generator.id } })
  expect((await exchange(broker, tokenOf(third.url))).status).toBe(401)

  const late = await link()
  await runSql(broker.databaseUrl, `update login_tokens set expires_at = now() - interval '1 second' where used_at is null`)
  expect((await exchange(broker, tokenOf(late.url))).status).toBe(401)
})

test.each(['session', 'links'])('[X20] POST /auth/%s that meets a rotation of its PAK leaves nothing to sign in with', async (path) => {
  const made = await broker.admin.createAdminPak({ body: { name: unique('k') } })
  const rotation = new pg.Client({ connectionString: broker.databaseUrl })
  await rotation.connect()
  try {
    await rotation.query('begin')
    await rotation.query(`update admin_role set pak_hash = encode(sha256(id::text::bytea), 'hex') where id = $1`, [made.id])
    let isAnswered = false
    const created = ask(broker, `POST /auth/${path}`, { pak: made.pak, body: {} }).finally(() => {
      isAnswered = true
    })
    await waitFor('the call to wait for the rotation', async () => {
      const waiting = await runSql(
        broker.databaseUrl,
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%admin_role%for share%'`,
      )
      return isAnswered || waiting.length > 0
    })
    await rotation.query('commit')
    const { status, text, header } = await created
    expect([status, text, header('set-cookie')]).toEqual([401, '', null])
    for (const table of ['console_sessions', 'login_tokens'])
      expect((await rotation.query(`select from ${table} where identity_id = $1`, [made.id])).rowCount).toBe(0)
  } finally {
    await rotation.end()
  }
})

test('five wrong tries end a link', async () => {
  const token = tokenOf((await link()).url)
  const wrong = `${token.slice(0, -1)}${token.endsWith('z') ? 'y' : 'z'}`
  for (let n = 0; n < 4; n += 1) expect((await exchange(broker, wrong)).status).toBe(401)
  const spared = tokenOf((await link()).url)
  expect((await exchange(broker, wrong)).status).toBe(401)
  expect((await exchange(broker, token)).status).toBe(401)
  expect((await exchange(broker, spared)).status).toBe(201)
})

test('pages of other origins, bodies without a type and unusable bodies are refused, and the link stays valid', async () => {
  const token = tokenOf((await link()).url)
  const foreign = await exchange(broker, token, { ...from(), origin: 'https://evil.example' })
  expect([foreign.status, foreign.code]).toEqual([403, 'origin_refused'])
  const untyped = await fetch(`${broker.url}/api/v1/auth/exchange`, {
    method: 'POST',
    headers: from(),
    body: new TextEncoder().encode(JSON.stringify({ token })),
  })
  expect(untyped.status).toBe(401)
  const send = (text: string) => ask(broker, 'POST /auth/exchange', { pak: null, text, headers: from() })
  // A body without a token is a missing credential: the answer tells no more.
  for (const text of ['', '{', '{}', '[]', JSON.stringify({ token: 7 }), JSON.stringify({ token: 'x'.repeat(70_000) })])
    expect([text.slice(0, 20), (await send(text)).status]).toEqual([text.slice(0, 20), 401])
  expect((await exchange(broker, 'one-time-x-y')).status).toBe(401)
  expect((await exchange(broker, token, { ...from(), origin: broker.url })).status).toBe(201)
})

test('wrong tokens of one address are limited, and a valid link from it is not', async () => {
  const headers = from()
  const statuses: number[] = []
  while (!statuses.includes(429) && statuses.length < 3000) {
    const answers = await Promise.all(
      Array.from({ length: 60 }, () => exchange(broker, `one-time-unknown-${unique('x').replaceAll(/[-0]/g, '1')}aaaaaaaaaa`, headers)),
    )
    statuses.push(...answers.map(({ status }) => status))
  }
  expect(new Set(statuses)).toEqual(new Set([401, 429]))
  expect((await exchange(broker, tokenOf((await link()).url), headers)).status).toBe(201)
  await waitFor('audit entries', async () => {
    const { logs } = await broker.admin.listAuditLogs({ query: { action: 'auth.failed', limit: 1 } })
    return logs[0]?.details?.['path'] === '/api/v1/auth/exchange'
  })
})

test('an identity has at most a hundred links; the oldest ends first', async () => {
  const { pak } = await createGenerator(broker)
  const first = tokenOf((await link(pak)).url)
  const second = tokenOf((await link(pak)).url)
  for (let n = 0; n < 99; n += 1) await link(pak)
  expect((await exchange(broker, first)).status).toBe(401)
  expect((await exchange(broker, second)).status).toBe(201)
})

test('new PAKs have the form of the settings, and PAKs in the default form stay valid', async () => {
  const own = await startTestBroker({
    env: { BROKKR__PAK__PREFIX: 'acme', BROKKR__PAK__SHORT_TOKEN_PREFIX: 'K', BROKKR__PAK__SHORT_TOKEN_LENGTH: '12' },
  })
  try {
    const { pak, client, generator } = await createGenerator(own)
    expect(pak).toMatch(/^acme_K[1-9A-HJ-NP-Za-km-z]{11}_/)
    expect((await client.verifyPak({})).generator).toBe(generator.id)
    expect((await own.admin.verifyPak({})).admin).toBe(true)
    expect((await ask(own, 'GET /stacks', { pak: pak.replace('acme', 'acne') })).status).toBe(401)
    const inUrl = await ask(own, `GET /stacks?pak=${pak}`, { pak: null })
    expect(inUrl.status).toBe(401)
    await waitFor('the audit entry', async () =>
      (await own.admin.listAuditLogs({ query: { action: 'auth.failed' } })).logs.some(
        ({ details }) => details?.['reason'] === 'credential_in_url',
      ),
    )
    expect(own.text()).not.toContain(pak.split('_')[2])
  } finally {
    await own.kill()
  }
})
