// long: starts a broker per case
import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeGenerator, startTestBroker, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { database } from '@brokkr/testing/postgres.ts'
import { startProgram } from '@brokkr/testing/program.ts'
import { expect, onTestFinished, test } from 'vitest'
import { ringProblem } from './check-keys.ts'

const a = 'aaaaaaaaaaaaaaaa'
const b = 'bbbbbbbbbbbbbbbb'
test.each([
  ['nothing is sealed: any ring will do', { known: [{ fingerprint: b, state: 'active' }], ring: [a], opensSample: null }, null],
  ['the key is the known one', { known: [{ fingerprint: a, state: 'active' }], ring: [a], opensSample: true }, null],
  ['a new key with the old one beside it', { known: [{ fingerprint: b, state: 'active' }], ring: [a, b], opensSample: true }, null],
  ['a new key without the old one', { known: [{ fingerprint: b, state: 'active' }], ring: [a], opensSample: false }, `under key ${b}`],
  ['one of two older keys is missing', { known: [{ fingerprint: b, state: 'previous' }], ring: [a], opensSample: true }, `under key ${b}`],
  ['a retired key is not asked for', { known: [{ fingerprint: b, state: 'retired' }], ring: [a], opensSample: true }, null],
  ['rows from before fingerprints, opened', { known: [], ring: [a], opensSample: true }, null],
  ['rows from before fingerprints, not opened', { known: [], ring: [a], opensSample: false }, `none of the configured keys (${a}) opens`],
] as const)('%s', (_, facts, problem) => {
  if (problem === null) expect(ringProblem(facts)).toBeNull()
  else expect(ringProblem(facts)).toContain(problem)
})

const newKey = () => randomBytes(32).toString('hex')
async function submitted(broker: TestBroker): Promise<string> {
  const { client, generator } = await makeGenerator(broker)
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

test('a key file that does not exist is made for its owner alone, and used again at the next start', async () => {
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

test('sealed rows under a key that is not in the ring stop the start; with it as a previous key they are read', async () => {
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
  expect(refused.text()).toMatch(/did not start: the database holds rows sealed under key [0-9a-f]{16}, and the configured keys are/)
  expect(refused.text()).not.toContain(old)
  const rotated = await broker.sibling({ BROKKR__BROKER__ENCRYPTION_KEY: newKey(), BROKKR__BROKER__ENCRYPTION_KEYS_PREVIOUS: old })
  expect((await rotated.admin.getDeploymentObject({ params: { id } })).yaml_content).toContain('ConfigMap')
  await rotated.kill()
})
