// long: waits for the last use to be told, and for keys to expire
import { createClient } from '@brokkr/contract/client.ts'
import { openDatabase } from '@brokkr/postgres'
import { createGenerator, startTestBroker, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { startProgram } from '@brokkr/testing/program.ts'
import { database, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { createAdminPak, revokeAdminPak } from '../../admin/actions/admin-paks.ts'
import { systemActor } from '../../audit/rules.ts'

let db: TestDatabase
let broker: TestBroker
beforeAll(async () => {
  db = await database()
  // Last use is written four times in the idle time of a session.
  broker = await startTestBroker({ databaseUrl: db.url, env: { BROKKR__BROKER__SESSION_IDLE_SECONDS: '2' } })
  return () => broker.kill()
})
const code = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => 'ok',
    (error: { code: string }) => error.code,
  )
const create = (body: Parameters<TestBroker['admin']['createAdminPak']>[0]['body']) => broker.admin.createAdminPak({ body })
const deeds = async (id: string) => {
  const client = await db.connect()
  const { rows } = await client.query<{ action: string; actor_type: string; details: Record<string, unknown> }>(
    'select action, actor_type, details from audit_logs where resource_id = $1 order by timestamp, id',
    [id],
  )
  await client.end()
  return rows
}

test('an admin PAK is created with its scope and listed without its text', async () => {
  const expires_at = new Date(Date.now() + 3_600_000).toISOString()
  const { pak, ...made } = await create({ name: ' ci ', readonly: true, scope: ['read', 'read', 'deploy'], expires_at })
  expect(made).toMatchObject({ name: 'ci', readonly: true, scope: ['read', 'deploy'], short_token: pak.split('_')[1], last_used_at: null })
  expect(Date.parse(made.expires_at!)).toBe(Date.parse(expires_at))
  const listed = await broker.admin.listAdminPaks({})
  expect(listed.map(({ name }) => name)).toEqual(['ci', 'configured'])
  expect(listed[0]).toEqual(made)
  expect(JSON.stringify(listed)).not.toContain(pak.split('_')[2])
  expect(await broker.clientOf(pak).verifyPak({})).toEqual({ admin: true, agent: null, generator: null, readonly: true })
  expect(await deeds(made.id)).toMatchObject([{ action: 'pak.created', actor_type: 'admin', details: { name: 'ci', readonly: true } }])
  await broker.admin.revokeAdminPak({ params: { id: made.id } })
})

test('the last use of admin and generator PAKs is stored within seconds', async () => {
  const { pak, id } = await create({ name: 'used' })
  const tenant = await createGenerator(broker)
  await broker.clientOf(pak).listStacks({})
  await tenant.client.listStacks({})
  await waitFor('last use', async () => (await broker.admin.listAdminPaks({})).find((one) => one.id === id)?.last_used_at)
  await waitFor('last activity', async () =>
    (await broker.admin.listGenerators({})).find((one) => one.id === tenant.generator.id && one.last_active_at !== null),
  )
})

test('an expired PAK is refused, and none can be created with a past expiry', async () => {
  expect(await code(create({ name: 'late', expires_at: '2020-01-01T00:00:00Z' }))).toBe('validation_failed')
  expect(await code(create({ name: 'odd', expires_at: 'tomorrow' }))).toBe('invalid_request_body')
  const { pak } = await create({ name: 'short', expires_at: new Date(Date.now() + 1500).toISOString() })
  const client = broker.clientOf(pak)
  await client.verifyPak({})
  await waitFor('the key has expired', async () => (await code(client.verifyPak({}))) === 'unauthorized')
})

test('a read-only PAK cannot write, and a scope permits only its verbs', async () => {
  const reader = broker.clientOf((await create({ name: 'viewer', readonly: true })).pak)
  await reader.listAdminPaks({})
  expect(await code(reader.createGenerator({ body: { name: unique('g') } }))).toBe('readonly')
  const scoped = broker.clientOf((await create({ name: 'deployer', scope: ['read', 'deploy'] })).pak)
  await scoped.listStacks({})
  expect(await code(scoped.createAdminPak({ body: { name: 'x' } }))).toBe('scope_denied')
})

test('a scoped PAK cannot grant, rotate or revoke beyond its scope', async () => {
  const keeper = broker.clientOf((await create({ name: 'keeper', scope: ['read', 'admin'] })).pak)
  const { id } = await create({ name: 'full' })
  expect(await code(keeper.createAdminPak({ body: { name: 'x' } }))).toBe('scope_denied')
  expect(await code(keeper.createAdminPak({ body: { name: 'x', scope: ['read', 'deploy'] } }))).toBe('scope_denied')
  expect(await code(keeper.rotateAdminPak({ params: { id } }))).toBe('scope_denied')
  expect(await code(keeper.revokeAdminPak({ params: { id } }))).toBe('scope_denied')
  const { pak, id: within } = await keeper.createAdminPak({ body: { name: 'x', scope: ['read'] } })
  expect(await code(broker.clientOf(pak).listStacks({}))).toBe('ok')
  await keeper.revokeAdminPak({ params: { id: within } })
})

test('an expiring admin PAK creates and rotates none that outlives it', async () => {
  const inAnHour = new Date(Date.now() + 3_600_000).toISOString()
  const [earlier, later] = [new Date(Date.now() + 1_800_000).toISOString(), new Date(Date.now() + 7_200_000).toISOString()]
  const temporary = await create({ name: 'temporary', expires_at: inAnHour })
  const permanent = await create({ name: 'permanent' })
  const client = broker.clientOf(temporary.pak)
  expect(await code(client.createAdminPak({ body: { name: 'x' } }))).toBe('scope_denied')
  expect(await code(client.createAdminPak({ body: { name: 'x', expires_at: null } }))).toBe('scope_denied')
  expect(await code(client.createAdminPak({ body: { name: 'x', expires_at: later } }))).toBe('scope_denied')
  expect(await code(client.rotateAdminPak({ params: { id: permanent.id } }))).toBe('scope_denied')
  expect(await code(client.createAdminPak({ body: { name: 'x', expires_at: earlier } }))).toBe('ok')
  const rotated = await client.rotateAdminPak({ params: { id: temporary.id } })
  expect(rotated.expires_at).toBe(temporary.expires_at)
})

test('a rotated admin PAK keeps its rights, and the old one is refused at once', async () => {
  const made = await create({ name: 'turned', readonly: true })
  const old = broker.clientOf(made.pak)
  await old.verifyPak({})
  const { pak, ...rotated } = await broker.admin.rotateAdminPak({ params: { id: made.id } })
  expect(rotated).toMatchObject({ id: made.id, name: 'turned', readonly: true })
  expect(rotated.short_token).not.toBe(made.short_token)
  await waitFor('the old key is dead', async () => (await code(old.verifyPak({}))) === 'unauthorized')
  expect(await broker.clientOf(pak).verifyPak({})).toMatchObject({ readonly: true })
  expect((await deeds(made.id)).map(({ action }) => action)).toEqual(['pak.created', 'pak.rotated'])
  const nobody = { params: { id: '0a000000-0000-4000-8000-000000000001' } }
  expect(await code(broker.admin.rotateAdminPak(nobody))).toBe('not_found')
  expect(await code(broker.admin.revokeAdminPak(nobody))).toBe('not_found')
})

test('concurrent revocations always leave one full admin PAK', async () => {
  const sql = openDatabase({ url: (await database()).url, schema: 'public', poolSize: 8 })
  const deps = { sql, wakeFeed: () => undefined }
  const made = await Promise.all([1, 2, 3, 4].map((n) => createAdminPak(deps, { name: `k${n}`, actor: systemActor })))
  // Neither a reader nor a key that has a scope or ends soon counts as the way back in.
  await createAdminPak(deps, { name: 'viewer', readonly: true, actor: systemActor })
  await createAdminPak(deps, { name: 'scoped', scope: ['admin'], actor: systemActor })
  const revoke = ({ id }: { id: string }) => code(revokeAdminPak(deps, { id, actor: systemActor }))
  const outcomes = await Promise.all(made.map(revoke))
  expect(outcomes.toSorted()).toEqual(['last_admin_pak', 'ok', 'ok', 'ok'])
  await sql.close()
})

test('brokkr broker rotate admin is the way back in, and running brokers notice', async () => {
  const own = await database()
  const running = await startTestBroker({ databaseUrl: own.url })
  await running.admin.verifyPak({})
  const run = async (...args: string[]) => {
    const program = await startProgram({
      name: 'rotate',
      main: 'packages/cli/src/main.ts',
      args: ['broker', 'rotate', 'admin', ...args],
      env: { DATABASE_URL: own.url, BROKKR__BROKER__ENCRYPTION_KEY: running.encryptionKey },
    })
    return { code: (await program.exited).code, text: program.text() }
  }
  const { text } = await run()
  const pak = /^brokkr_BR\S+$/m.exec(text)?.[0] ?? ''
  const client = createClient({ baseUrl: running.url, pak: () => pak })
  expect(await client.verifyPak({})).toMatchObject({ admin: true })
  await waitFor('the old key is dead', async () => (await code(running.admin.verifyPak({}))) === 'unauthorized')
  await client.createAdminPak({ body: { name: 'second' } })
  expect(await run()).toMatchObject({ code: 1, text: expect.stringContaining('name one of them with --name') as string })
  expect((await run('--name', 'second')).code).toBe(0)
  await running.kill()
})
