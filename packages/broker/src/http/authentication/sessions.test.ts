// Console sessions against a real broker: what they open, how they end, and what they never show.
// long: waits for sessions to end
import { createAgent, createGenerator, startTestBroker, type TestBroker, type TestGenerator, unique } from '@brokkr/testing/broker.ts'
import { database, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'

let db: TestDatabase
let broker: TestBroker
let other: TestBroker
let tenant: TestGenerator
beforeAll(async () => {
  db = await database()
  broker = await startTestBroker({ databaseUrl: db.url })
  other = await broker.sibling()
  tenant = await createGenerator(broker)
  return () => Promise.all([broker.kill(), other.kill()])
})

async function ask(at: TestBroker, path: string, options: { method?: string; headers?: Record<string, string>; body?: unknown } = {}) {
  const response = await fetch(`${at.url}/api/v1${path}`, {
    method: options.method ?? 'GET',
    headers: { ...(options.body === undefined ? {} : { 'content-type': 'application/json' }), ...options.headers },
    ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
  })
  const text = await response.text()
  return {
    status: response.status,
    headers: response.headers,
    text,
    json: (text === '' ? null : JSON.parse(text)) as Record<string, unknown>,
  }
}
async function signIn(pak: string, body: unknown = {}) {
  const answer = await ask(broker, '/auth/session', { method: 'POST', headers: { authorization: `Bearer ${pak}` }, body })
  expect(answer.status).toBe(201)
  const cookie = (answer.headers.get('set-cookie') ?? '').split(';')[0] ?? ''
  return { ...answer, cookie, headersAt: (at: TestBroker) => ({ cookie, origin: at.url, 'x-brokkr-console': '1' }) }
}
const rows = async <Row extends object>(text: string, values: unknown[] = []): Promise<Row[]> => {
  const client = await db.connect()
  const found = await client.query<Row>(text, values)
  await client.end()
  return found.rows
}

test('a PAK creates a session whose cookie is valid in every process', async () => {
  const { json, headers, cookie, headersAt } = await signIn(broker.adminPak)
  expect(json).toEqual({ expires_at: json['expires_at'], readonly: false })
  const life = (Date.parse(String(json['expires_at'])) - Date.now()) / 3_600_000
  expect(life).toBeCloseTo(12, 1)
  expect(headers.get('set-cookie')).toMatch(/^brokkr_session=[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Strict$/)
  for (const at of [broker, other]) expect((await ask(at, '/stacks', { headers: { cookie } })).status).toBe(200)
  expect((await ask(broker, '/generators', { method: 'POST', headers: headersAt(broker), body: { name: unique('g') } })).status).toBe(201)
  const token = cookie.split('=')[1] ?? ''
  const [kept] = await rows<{ n: number }>('select count(*)::int as n from console_sessions s where s::text like $1', [`%${token}%`])
  expect(kept?.n).toBe(0)
  expect(`${broker.text()}${other.text()}`).not.toContain(token)
  const deeds = await rows<{ action: string }>(
    `select action from audit_logs where action in ('auth.success', 'session.created') order by action`,
  )
  expect(deeds.map(({ action }) => action)).toEqual(['auth.success', 'session.created'])
})

test('agents cannot sign in, sessions cannot create sessions, and PAKs cannot sign out', async () => {
  const agent = await createAgent(broker, { generators: [tenant] })
  const bearer = (pak: string) => ({ authorization: `Bearer ${pak}` })
  expect((await ask(broker, '/auth/session', { method: 'POST', headers: bearer(agent.pak), body: {} })).json['code']).toBe('forbidden')
  const { headersAt } = await signIn(tenant.pak)
  expect((await ask(broker, '/auth/session', { method: 'POST', headers: headersAt(broker), body: {} })).json['code']).toBe('forbidden')
  expect((await ask(broker, '/auth/session', { method: 'DELETE', headers: bearer(broker.adminPak) })).json['code']).toBe('forbidden')
})

test('signing out ends the session, its watches and its cookie in every process', async () => {
  const { cookie, headersAt } = await signIn(broker.adminPak)
  const opened = await Promise.all([broker, other].map((at) => fetch(`${at.url}/api/v1/watch?scope=kind:stack`, { headers: { cookie } })))
  const out = await ask(broker, '/auth/session', { method: 'DELETE', headers: headersAt(broker) })
  expect([out.status, out.headers.get('set-cookie')]).toEqual([204, 'brokkr_session=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict'])
  for (const response of opened) expect(await response.text()).toContain('"reason":"revoked"')
  for (const at of [broker, other])
    await waitFor('signed out', async () => (await ask(at, '/stacks', { headers: { cookie } })).status === 401)
})

test('a session ends when its PAK is rotated, revoked or demoted', async () => {
  const made = await broker.admin.createAdminPak({ body: { name: unique('k') } })
  const first = await signIn(made.pak)
  const rotated = await broker.admin.rotateAdminPak({ params: { id: made.id } })
  const ended = (cookie: string) =>
    Promise.all(
      [broker, other].map((at) => waitFor('ended', async () => (await ask(at, '/stacks', { headers: { cookie } })).status === 401)),
    )
  await ended(first.cookie)

  const second = await signIn(rotated.pak)
  await rows('update admin_role set readonly = true where id = $1', [made.id])
  await waitFor('demoted', async () => {
    const answer = await ask(other, '/generators', { method: 'POST', headers: second.headersAt(other), body: { name: '' } })
    return answer.json['code'] === 'readonly'
  })
  await broker.admin.revokeAdminPak({ params: { id: made.id } })
  await ended(second.cookie)

  const owner = await createGenerator(broker)
  const third = await signIn(owner.pak)
  expect((await ask(other, '/stacks', { headers: { cookie: third.cookie } })).status).toBe(200)
  await rows('update generators set pak_hash = md5(random()::text) where id = $1', [owner.generator.id])
  await ended(third.cookie)
  expect(await rows('select from console_sessions where identity_id = any($1)', [[made.id, owner.generator.id]])).toEqual([])
})

test('a session ends at its idle timeout and at its absolute end', async () => {
  const short = await broker.sibling({ BROKKR__BROKER__SESSION_SECONDS: '6', BROKKR__BROKER__SESSION_IDLE_SECONDS: '2' })
  const signInHere = async () => {
    const headers = { authorization: `Bearer ${broker.adminPak}` }
    const answer = await ask(short, '/auth/session', { method: 'POST', headers, body: {} })
    return { cookie: (answer.headers.get('set-cookie') ?? '').split(';')[0] ?? '', startedMs: performance.now() }
  }
  const statusOf = async (cookie: string) => (await ask(short, '/stacks', { headers: { cookie } })).status
  const [used, idle, watching] = [await signInHere(), await signInHere(), await signInHere()]
  // A page that only watches is idle: its stream does not renew the session.
  await fetch(`${short.url}/api/v1/watch?scope=kind:stack`, { headers: { cookie: watching.cookie } })
  const aliveMs: number[] = []
  await waitFor('the absolute end', async () => {
    const status = await statusOf(used.cookie)
    if (status === 200) aliveMs.push(performance.now() - used.startedMs)
    return status === 401
  })
  expect(aliveMs.at(-1)).toBeGreaterThan(3000)
  expect([await statusOf(idle.cookie), await statusOf(watching.cookie)]).toEqual([401, 401])
  const ends = await rows<{ n: number }>('select count(*)::int as n from console_sessions where idle_until > expires_at')
  expect(ends[0]?.n).toBe(0)
  await short.kill()
})

test('read-only PAKs and sessions read manifests without Secret values', async () => {
  const canary = `S3CR3T-${unique('x')}`
  const label = unique('l')
  const stack = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id, labels: [label] } })
  const agent = await createAgent(broker, { labels: [label], generators: [tenant] })
  const yaml_content = `apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: ${canary}}\n`
  const object = await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content } })
  const reader = (await broker.admin.createAdminPak({ body: { name: unique('r'), readonly: true } })).pak
  const admin = await signIn(broker.adminPak)
  const owner = await signIn(tenant.pak, { readonly: true })
  const paths = [`/deployment-objects/${object.id}`, `/stacks/${stack.id}/deployment-objects`]
  const yaml = { accept: 'application/yaml' }
  const texts = async (headers: Record<string, string>) =>
    Promise.all(
      [...paths.map((path) => [path, {}] as const), [paths[0]!, yaml] as const].map(async ([path, accept]) =>
        (await fetch(`${broker.url}/api/v1${path}`, { headers: { ...headers, ...accept } })).text(),
      ),
    )
  for (const headers of [{ authorization: `Bearer ${reader}` }, { cookie: admin.cookie }, { cookie: owner.cookie }]) {
    for (const text of await texts(headers)) {
      expect(text).not.toContain(canary)
      expect(text).toContain('password')
    }
  }
  const targets = `/agents/${agent.agent.id}/target-state`
  expect((await ask(broker, targets, { headers: { cookie: admin.cookie } })).text).not.toContain(canary)
  for (const pak of [broker.adminPak, tenant.pak])
    for (const text of await texts({ authorization: `Bearer ${pak}` })) expect(text).toContain(canary)
  expect((await ask(broker, targets, { headers: { authorization: `Bearer ${agent.pak}` } })).text).toContain(canary)
  // What is shown is not what is stored, so it does not carry the same tag.
  const etag = async (headers: Record<string, string>) => (await ask(broker, paths[0]!, { headers })).headers.get('etag')
  expect(await etag({ cookie: admin.cookie })).not.toBe(await etag({ authorization: `Bearer ${broker.adminPak}` }))
  // The answer to a submission by session is a manifest too.
  const submitted = await ask(broker, `/stacks/${stack.id}/deployment-objects`, {
    method: 'POST',
    headers: admin.headersAt(broker),
    body: { yaml_content },
  })
  expect([submitted.status, submitted.text.includes(canary)]).toEqual([201, false])
})

test('[S49] a watch accepts a cookie, and a PAK in its query is refused and audited', async () => {
  const { cookie } = await signIn(broker.adminPak)
  const opened = await fetch(`${broker.url}/api/v1/watch?scope=kind:stack`, { headers: { cookie } })
  const reader = opened.body!.getReader()
  const decoder = new TextDecoder()
  let text = ''
  const until = async (word: string) => {
    while (!text.includes(word)) text += decoder.decode((await reader.read()).value, { stream: true })
  }
  await until('event: hello')
  const stack = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id } })
  await until(stack.id)
  await reader.cancel()
  for (const query of [`pak=${broker.adminPak}`, `access_token=${broker.adminPak}`, `token=${encodeURIComponent(tenant.pak)}`]) {
    const refused = await fetch(`${broker.url}/api/v1/watch?scope=kind:stack&${query}`)
    expect([refused.status, await refused.text()]).toEqual([401, ''])
  }
  const audited = `select from audit_logs where action = 'auth.failed' and details->>'reason' = 'credential_in_url'`
  await waitFor('audit rows', async () => (await rows(audited)).length === 3)
  const leaked = await rows('select from audit_logs a where a::text like $1', [`%${broker.adminPak.split('_')[2]}%`])
  expect(leaked).toEqual([])
})

test('[X7] every credential is stored as a hash and shown once', async () => {
  const agent = await createAgent(broker, { generators: [tenant] })
  const owner = await createGenerator(broker)
  const admin = await broker.admin.createAdminPak({ body: { name: unique('k') } })
  const rotated = await broker.admin.rotateAdminPak({ params: { id: admin.id } })
  const { cookie } = await signIn(rotated.pak)
  const long = (pak: string) => pak.split('_').slice(2).join('_')
  const secrets = [agent.pak, owner.pak, admin.pak, rotated.pak].map(long).concat(cookie.split('=')[1] ?? '')
  const client = await db.connect()
  const tables = await client.query<{ name: string }>(
    `select quote_ident(c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = 'public' and c.relkind in ('r', 'p')`,
  )
  const hits = async (secret: string) => {
    const found: string[] = []
    for (const { name } of tables.rows)
      if ((await client.query(`select from ${name} t where t::text like $1 limit 1`, [`%${secret}%`])).rowCount) found.push(name)
    return found
  }
  // The search finds what is there.
  expect(await hits(owner.generator.id)).toContain('generators')
  for (const secret of secrets) expect(await hits(secret)).toEqual([])
  await client.end()
  const shown = await Promise.all(
    ['/admin/paks', '/generators', '/agents', `/agents/${agent.agent.id}`].map(
      async (path) => (await ask(broker, path, { headers: { authorization: `Bearer ${broker.adminPak}` } })).text,
    ),
  )
  for (const secret of secrets) expect(shown.join()).not.toContain(secret)
  expect(shown.join()).not.toContain('pak_hash')
})
