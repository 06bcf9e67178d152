// long: starts a broker per case
import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createGenerator, startTestBroker, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { startProgram } from '@brokkr/testing/program.ts'
import { database } from '@brokkr/testing/servers/postgres.ts'
import { expect, onTestFinished, test } from 'vitest'
import { loopbackAllowed } from '../webhooks/delivery/receiver.fixture.ts'
import { findKeyRingProblem } from './check-keys.ts'
import { sealedColumns } from './sealed-columns.ts'

const a = 'aaaaaaaaaaaaaaaa'
const b = 'bbbbbbbbbbbbbbbb'
test.each([
  ['nothing is sealed: any ring will do', { known: [{ fingerprint: b, state: 'active' }], ring: [a], opensSample: null }, null],
  ['the key is the known one', { known: [{ fingerprint: a, state: 'active' }], ring: [a], opensSample: true }, null],
  ['a new key with the old one beside it', { known: [{ fingerprint: b, state: 'active' }], ring: [a, b], opensSample: true }, null],
  [
    'a new key without the old one',
    { known: [{ fingerprint: b, state: 'active' }], ring: [a], opensSample: false },
    `encrypted with key ${b}`,
  ],
  [
    'one of two older keys is missing',
    { known: [{ fingerprint: b, state: 'previous' }], ring: [a], opensSample: true },
    `encrypted with key ${b}`,
  ],
  ['a retired key is not asked for', { known: [{ fingerprint: b, state: 'retired' }], ring: [a], opensSample: true }, null],
  ['rows from before fingerprints, opened', { known: [], ring: [a], opensSample: true }, null],
  ['rows from before fingerprints, not opened', { known: [], ring: [a], opensSample: false }, `no configured key (${a}) decrypts`],
] as const)('%s', (_, facts, problem) => {
  if (problem === null) expect(findKeyRingProblem(facts)).toBeNull()
  else expect(findKeyRingProblem(facts)).toContain(problem)
})

const newKey = () => randomBytes(32).toString('hex')
async function submitted(broker: TestBroker): Promise<string> {
  const { client, generator } = await createGenerator(broker)
  const stack = await client.createStack({ body: { name: unique('stack'), generator_id: generator.id } })
  const yaml_content = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n'
  return (await client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content } })).id
}
const envOf = (databaseUrl: string, more: Record<string, string>) => ({
  DATABASE_URL: databaseUrl,
  BROKKR__SERVER__PORT: '0',
  BROKKR__BROKER__PAK_HASH: '0'.repeat(64),
  ...more,
})

test('a missing key file is created for its owner only and reused', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'brokkr-key-'))
  onTestFinished(() => rm(dir, { recursive: true }))
  const file = join(dir, 'sealing.key')
  const { url } = await database()
  const start = (env: Record<string, string>) => startProgram({ name: 'broker', main: 'packages/broker/src/main.ts', env: envOf(url, env) })
  const without = await start({})
  expect((await without.exited).code).toBe(2)
  expect(without.text()).toContain('broker.encryption_key: is missing')
  const first = await start({ BROKKR__BROKER__ENCRYPTION_KEY_FILE: file })
  await expect.poll(() => first.text(), { timeout: 30_000 }).toContain('broker ready')
  expect((await stat(file)).mode & 0o777).toBe(0o600)
  const key = await readFile(file, 'utf8')
  expect(key).toMatch(/^[0-9a-f]{64}\n$/)
  expect(first.text()).not.toContain(key.trim())
  await first.stop()
  const second = await start({ BROKKR__BROKER__ENCRYPTION_KEY_FILE: file })
  await expect.poll(() => second.text(), { timeout: 30_000 }).toContain('broker ready')
  expect(await readFile(file, 'utf8')).toBe(key)
  await second.kill()
})

test('rows encrypted with an unknown key stop the start until it is configured', async () => {
  const old = newKey()
  const broker = await startTestBroker({ env: { BROKKR__BROKER__ENCRYPTION_KEY: old } })
  const id = await submitted(broker)
  await broker.stop()
  const refused = await startProgram({
    name: 'broker',
    main: 'packages/broker/src/main.ts',
    env: envOf(broker.databaseUrl, { BROKKR__BROKER__ENCRYPTION_KEY: newKey() }),
  })
  expect((await refused.exited).code).toBe(1)
  expect(refused.text()).toMatch(/did not start: the database has rows encrypted with key [0-9a-f]{16}, and the configured keys are/)
  expect(refused.text()).not.toContain(old)
  const rotated = await broker.sibling({ BROKKR__BROKER__ENCRYPTION_KEY: newKey(), BROKKR__BROKER__ENCRYPTION_KEYS_PREVIOUS: old })
  expect((await rotated.admin.getDeploymentObject({ params: { id } })).yaml_content).toContain('ConfigMap')
  await rotated.kill()
})

test('the broker refuses to start with a wrong key when only webhook subscriptions are sealed', async () => {
  const broker = await startTestBroker({ env: loopbackAllowed })
  await broker.admin.createWebhook({ body: { name: unique('hook'), url: 'http://127.0.0.1:9/', event_types: ['agent.*'] } })
  await broker.stop()
  const refused = await startProgram({
    name: 'broker',
    main: 'packages/broker/src/main.ts',
    env: envOf(broker.databaseUrl, { BROKKR__BROKER__ENCRYPTION_KEY: newKey() }),
  })
  expect((await refused.exited).code).toBe(1)
  expect(refused.text()).toContain('did not start: the database has rows encrypted with key')
})

test('the list of sealed columns equals the sealed columns of the schema', async () => {
  const client = await (await database()).connect()
  const { rows } = await client.query<{ name: string }>(
    `select c.relname || '.' || a.attname as name from pg_attribute a join pg_class c on c.oid = a.attrelid
     where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and a.attname like '%\\_sealed' order by 1`,
  )
  await client.end()
  expect(sealedColumns.map(({ table, column }) => `${table}.${column}`).toSorted()).toEqual(rows.map(({ name }) => name))
})
