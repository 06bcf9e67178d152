// `brokkr broker …` as operators run it: processes, a real database, settings by environment.
// long: starts the program per case
import { randomBytes } from 'node:crypto'
import { createClient } from '@brokkr/client'
import { freePort } from '@brokkr/local/supervisor/free-ports.ts'
import { logLine, type ProgramProcess, startProgram } from '@brokkr/testing/program.ts'
import { emptyDatabase, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, onTestFinished, test } from 'vitest'

interface Installation {
  readonly env: Record<string, string>
  readonly url: string
}
async function installation(db: TestDatabase, more: Record<string, string> = {}): Promise<Installation> {
  const port = await freePort()
  const env = {
    DATABASE_URL: db.url,
    BROKKR__SERVER__PORT: String(port),
    BROKKR__DATABASE__POOL_SIZE: '5',
    BROKKR__BROKER__ENCRYPTION_KEY: randomBytes(32).toString('hex'),
    BROKKR__BROKER__PAK_HASH: randomBytes(32).toString('hex'),
    ...more,
  }
  return { env, url: `http://127.0.0.1:${port}` }
}
const cli = (env: Record<string, string>, ...args: string[]): Promise<ProgramProcess> =>
  startProgram({ name: 'brokkr', main: 'packages/cli/src/main.ts', args: ['broker', ...args], env })
async function run({ env }: Installation, ...args: string[]): Promise<{ code: number | null; text: string; pak: string }> {
  const program = await cli(env, ...args)
  const { code } = await program.exited
  return { code, text: program.text(), pak: /^brokkr_BR\w{6}_\w+$/m.exec(program.text())?.[0] ?? '' }
}
async function serve({ env }: Installation, ...words: string[]): Promise<ProgramProcess> {
  const program = await cli(env, ...words)
  onTestFinished(() => program.kill())
  await logLine(program, 'broker ready')
  return program
}
const clientOf = ({ url }: Installation, pak: string) => createClient({ baseUrl: url, pak: () => pak, userAgent: 'test' })
const statusOf = async ({ url }: Installation, pak: string) =>
  (await fetch(`${url}/api/v1/auth/pak`, { method: 'POST', headers: { authorization: `Bearer ${pak}` } })).status

test('a running broker accepts PAKs that the command line creates and rotates', async () => {
  const at = await installation(await emptyDatabase())
  expect(await run(at, 'create', 'admin', '--name', 'a')).toMatchObject({
    code: 1,
    text: expect.stringContaining('run brokkr broker migrate first') as string,
  })
  expect((await run(at, 'migrate')).text).toMatch(/at version \d+; \d\d+ migrations were run/)
  expect((await run(at, 'migrate')).text).toContain('; 0 migrations were run')
  const broker = await serve(at, 'serve')

  const admin = await run(at, 'create', 'admin', '--name', 'operator')
  expect(admin.code).toBe(0)
  expect((await clientOf(at, admin.pak).verifyPak({})).admin).toBe(true)
  const reader = await run(at, 'create', 'admin', '--name', 'reader', '--scope', 'read,deploy', '--readonly')
  expect((await clientOf(at, reader.pak).verifyPak({})).readonly).toBe(true)
  expect(await run(at, 'create', 'admin', '--name', 'x', '--scope', 'everything')).toMatchObject({
    code: 1,
    text: expect.stringContaining('"everything" is not a verb') as string,
  })

  const signIn = await run(at, 'create', 'login-link', '--name', 'operator', '--readonly')
  const [, base, token] = /^(http:\/\/\S+)\/login#(one-time-\S+)$/m.exec(signIn.text) ?? []
  expect([signIn.code, base]).toEqual([0, at.url])
  const exchange = () =>
    fetch(`${at.url}/api/v1/auth/exchange`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ token }),
    })
  const signedIn = await exchange()
  expect([signedIn.status, await signedIn.json()]).toEqual([201, expect.objectContaining({ readonly: true })])
  expect((await exchange()).status).toBe(401)
  expect((await run(at, 'create', 'login-link', '--name', 'operator', '--url', 'https://broker.example.com/x')).text).toContain(
    'https://broker.example.com/login#one-time-',
  )
  expect((await run(at, 'create', 'login-link')).text).toContain('name one of them with --name')

  const generator = await run(at, 'create', 'generator', '--name', 'team', '--description', 'of the shop')
  const agent = await run(
    at,
    'create',
    'agent',
    '--name',
    'west',
    '--cluster-name',
    'c1',
    '--generator',
    'team',
    '-l',
    'env:prod',
    '-l',
    'eu',
  )
  expect((await clientOf(at, agent.pak).verifyPak({})).agent).toBeTruthy()
  const [made] = await clientOf(at, admin.pak).listAgents({})
  expect(made).toMatchObject({ name: 'west', cluster_name: 'c1', status: 'INACTIVE' })
  const labels = await clientOf(at, agent.pak).agentsListLabels({ params: { id: made!.id } })
  expect(labels.map(({ label }) => label).toSorted()).toEqual(['env:prod', 'eu'])
  const stack = await clientOf(at, generator.pak).createStack({
    body: { name: 's', generator_id: (await clientOf(at, admin.pak).listPaks({})).find(({ name }) => name === 'team')!.id, labels: ['eu'] },
  })
  expect((await clientOf(at, agent.pak).getAssociatedStacks({ params: { id: made!.id } })).map(({ id }) => id)).toEqual([stack.id])

  const replaced = [
    { old: agent.pak, made: await run(at, 'rotate', 'agent', '--name', 'west', '--cluster-name', 'c1') },
    { old: generator.pak, made: await run(at, 'rotate', 'generator', '--name', 'team') },
    { old: reader.pak, made: await run(at, 'rotate', 'admin', '--name', 'reader') },
  ]
  for (const { old, made: fresh } of replaced) {
    expect(fresh.code).toBe(0)
    await waitFor('the old PAK is rejected', async () => (await statusOf(at, old)) === 401)
    expect(await statusOf(at, fresh.pak)).toBe(200)
  }
  for (const { code, words } of [
    { code: 3, words: ['rotate', 'agent', '--name', 'west', '--cluster-name', 'other'] },
    { code: 3, words: ['rotate', 'generator', '--name', 'nobody'] },
    { code: 3, words: ['create', 'agent', '--name', 'b', '--cluster-name', 'c', '--generator', 'nobody'] },
    { code: 5, words: ['create', 'generator', '--name', 'team'] },
  ]) {
    const refused = await run(at, ...words)
    expect([refused.code, refused.pak, refused.text.includes('error')], words.join(' ')).toEqual([code, '', true])
  }
  // Each created PAK has an audit entry, and no PAK appears in a log.
  const { logs } = await clientOf(at, admin.pak).listAuditLogs({ query: { actor_type: 'system' } })
  expect(logs.map(({ action }) => action)).toEqual(
    expect.arrayContaining(['agent.created', 'generator.created', 'pak.created', 'pak.rotated']) as string[],
  )
  expect(broker.text()).not.toContain(admin.pak.split('_')[2])
  expect(await broker.stop()).toBe(0)
}, 240_000)

/** As long as a name can be, with a capital letter that must not be folded. */
const longName = `Tenant_${'b'.repeat(56)}`

test('brokers share the rows of one schema, and rows of another schema stay separate', async () => {
  const db = await emptyDatabase()
  const shared = await installation(db)
  const sibling = { ...(await installation(db)), env: { ...shared.env, BROKKR__SERVER__PORT: String(await freePort()) } }
  const tenant = await installation(db, { BROKKR__DATABASE__SCHEMA: longName })
  // All three find an empty database; who comes first makes each schema.
  await Promise.all([serve(shared), serve(sibling), serve(tenant)])
  const siblingAt = { ...sibling, url: `http://127.0.0.1:${sibling.env['BROKKR__SERVER__PORT']}` }
  const [one, two] = [
    await run(shared, 'create', 'generator', '--name', 'same'),
    await run(tenant, 'create', 'generator', '--name', 'same'),
  ]
  const seen = async (pak: string) => Promise.all([shared, siblingAt, tenant].map((at) => statusOf(at, pak)))
  expect(await seen(one.pak)).toEqual([200, 200, 401])
  expect(await seen(two.pak)).toEqual([401, 401, 200])
  const client = await db.connect()
  const { rows } = await client.query(
    `select (select count(*)::int from public.admin_role) as shared, (select count(*)::int from "${longName}".admin_role) as tenant,
            (select count(*)::int from public.generators where name = 'same') as here, (select count(*)::int from "${longName}".generators where name = 'same') as there`,
  )
  expect(rows).toEqual([{ shared: 1, tenant: 1, here: 1, there: 1 }])
  await client.end()
}, 240_000)

test.each(['1st', 'a-b', 'a;drop', 'x'.repeat(64)])('a broker with schema %s exits with 2 and names the setting', async (schema) => {
  const at = await installation(await emptyDatabase(), { BROKKR__DATABASE__SCHEMA: schema })
  const { code, text } = await run(at, 'serve')
  expect([code, text.includes('database.schema')]).toEqual([2, true])
})
