// long: starts a broker per case
import { chmod, lstat, mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { generatePak } from '@brokkr/contract/auth/pak.ts'
import { createClient } from '@brokkr/contract/client.ts'
import { openDatabase } from '@brokkr/postgres'
import { logLine, type ProgramProcess, startProgram } from '@brokkr/testing/program.ts'
import { database, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, onTestFinished, test } from 'vitest'
import * as adminRole from './admin/store/admin-role.ts'
import { sampleHashes } from './auth/sample-paks.ts'
import { createAdmin, rotateAdmin } from './commands.ts'

const main = 'packages/broker/src/main.ts'
const key = 'ab'.repeat(32)
const start = (env: Record<string, string>): Promise<ProgramProcess> =>
  startProgram({ name: 'broker', main, env: { BROKKR__SERVER__PORT: '0', BROKKR__BROKER__ENCRYPTION_KEY: key, ...env } })

async function fresh(): Promise<{ db: TestDatabase; dir: string; file: string; env: Record<string, string> }> {
  const [db, root] = [await database(), await mkdtemp(join(tmpdir(), 'brokkr-first-'))]
  onTestFinished(() => rm(root, { recursive: true }))
  const dir = join(root, 'keys')
  const file = join(dir, 'key.txt')
  return { db, dir, file, env: { DATABASE_URL: db.url, BROKKR__BROKER__ADMIN_PAK_FILE: file } }
}
const isThere = (file: string) =>
  lstat(file).then(
    () => true,
    () => false,
  )
const gone = (file: string) => waitFor('the key file is gone', async () => !(await isThere(file)))
async function ready(program: ProgramProcess) {
  const { address } = await logLine(program, 'broker ready')
  return (pak: string) => createClient({ baseUrl: String(address), pak: () => pak })
}
const adminKeys = async (db: TestDatabase): Promise<number> => {
  const client = await db.connect()
  const { rows } = await client.query<{ n: number }>('select count(*)::int as n from admin_role where deleted_at is null')
  await client.end()
  return rows[0]!.n
}
const endAdminPak = async (db: TestDatabase, name: string): Promise<void> => {
  const client = await db.connect()
  await client.query(`update admin_role set expires_at = now() - interval '30 days' where name = $1`, [name])
  await client.end()
  const sql = openDatabase({ url: db.url, schema: 'public', poolSize: 1 })
  expect(await adminRole.removeExpired(sql, { days: 7 })).toBe(1)
  await sql.close()
}

test('[X35] the first admin PAK is in a private file that is removed after the first admin call', async () => {
  const { db, dir, file, env } = await fresh()
  const broker = await start(env)
  const clientOf = await ready(broker)
  expect([(await stat(dir)).mode & 0o777, (await stat(file)).mode & 0o777]).toEqual([0o700, 0o600])
  const pak = (await readFile(file, 'utf8')).trim()
  expect(await clientOf(pak).verifyPak({})).toEqual({ admin: true, agent: null, generator: null, readonly: false })
  await gone(file)
  await broker.stop()
  expect(broker.text()).not.toContain(pak.split('_')[2])
  // A second start makes none; the key opens it all the same.
  const second = await start(env)
  expect(await (await ready(second))(pak).verifyPak({})).toMatchObject({ admin: true })
  expect([await isThere(file), await adminKeys(db)]).toEqual([false, 1])
  await second.kill()
})

test('[X35] the PAK file is removed when it expires and when the broker stops', async () => {
  const { file, env } = await fresh()
  const killed = await start(env)
  await ready(killed)
  await killed.kill()
  expect(await isThere(file)).toBe(true)
  const stopped = await start(env)
  await ready(stopped)
  expect(await isThere(file)).toBe(true)
  await stopped.stop()
  expect(await isThere(file)).toBe(false)

  const { file: second, env: other } = await fresh()
  const timed = await start({ ...other, BROKKR__BROKER__ADMIN_PAK_FILE_SECONDS: '0.5' })
  await ready(timed)
  await gone(second)
  await timed.kill()
})

test('[X35] a link, an open directory or a sample PAK stops the start', async () => {
  const { db, dir, file, env } = await fresh()
  await mkdir(dir, { mode: 0o700 })
  const elsewhere = join(dir, '..', 'elsewhere')
  await writeFile(elsewhere, 'theirs')
  await symlink(elsewhere, file)
  const linked = await start(env)
  expect((await linked.exited).code).toBe(1)
  expect(linked.text()).toContain('is not a regular file of this user')
  expect([await readFile(elsewhere, 'utf8'), await adminKeys(db)]).toEqual(['theirs', 0])

  await rm(file)
  await chmod(dir, 0o750)
  const open = await start(env)
  expect([(await open.exited).code, await isThere(file), await adminKeys(db)]).toEqual([1, false, 0])
  expect(open.text()).toContain('is open to others')

  const sample = { ...env, BROKKR__BROKER__PAK_HASH: sampleHashes[0]! }
  const refused = await start(sample)
  expect((await refused.exited).code).toBe(2)
  expect(refused.text()).toContain('published sample PAK')
  expect(await adminKeys(db)).toBe(0)

  // Allowed on purpose it starts, and says so in its log and its metrics; a later start that does not allow it stops.
  const allowed = await start({ ...sample, BROKKR__BROKER__ALLOW_SAMPLE_PAK: 'true' })
  const { address } = await logLine(allowed, 'broker ready')
  await logLine(allowed, 'sample admin PAK in use, replace it with: brokkr broker rotate admin')
  expect(await (await fetch(`${String(address)}/metrics`)).text()).toContain('brokkr_default_admin_pak_hash_in_use 1')
  await allowed.kill()
  const later = await start(env)
  expect((await later.exited).code).toBe(2)
})

test('[X35] two brokers that start at once create one admin PAK', async () => {
  const { db, file, env } = await fresh()
  const brokers = await Promise.all([start(env), start(env)])
  const clients = await Promise.all(brokers.map(ready))
  expect(await adminKeys(db)).toBe(1)
  const pak = (await readFile(file, 'utf8')).trim()
  for (const clientOf of clients) expect(await clientOf(pak).verifyPak({})).toMatchObject({ admin: true })
  await Promise.all(brokers.map((broker) => broker.kill()))
})

test('[X35] a revoked configured PAK stays revoked after a restart without any live admin PAK', async () => {
  const { db, env } = await fresh()
  const { pak, hash } = await generatePak()
  const configured = { ...env, BROKKR__BROKER__PAK_HASH: hash }
  const first = await start(configured)
  const clientOf = await ready(first)
  const expires_at = new Date(Date.now() + 3_600_000).toISOString()
  const { pak: replacement } = await clientOf(pak).createAdminPak({ body: { name: 'temporary', expires_at } })
  const [row] = (await clientOf(replacement).listAdminPaks({})).filter(({ name }) => name === 'configured')
  await clientOf(replacement).revokeAdminPak({ params: { id: row!.id } })
  await first.stop()
  // The replacement expires and housekeeping removes it.
  await endAdminPak(db, 'temporary')

  const second = await start(configured)
  const { address } = await logLine(second, 'broker ready')
  const status = (token: string) =>
    fetch(`${String(address)}/api/v1/auth/pak`, { method: 'POST', headers: { authorization: `Bearer ${token}` } }).then(
      (answer) => answer.status,
    )
  expect([await status(pak), await status(replacement), await adminKeys(db)]).toEqual([401, 401, 0])
  expect(await logLine(second, 'no admin PAK with full rights is left')).toMatchObject({
    next_step: 'run: brokkr broker create admin --name <name>',
  })
  const commandEnv = { BROKKR__BROKER__ENCRYPTION_KEY: key, ...configured }
  await expect(rotateAdmin({ env: commandEnv, useConfiguredHash: true })).rejects.toThrow('run brokkr broker create admin')
  const created = await createAdmin({ env: commandEnv, name: 'operator' })
  expect(await status(created.pak)).toBe(200)
  await second.kill()
})

test('[X35] a configured hash that was rotated away is refused by rotate admin --use-configured-hash', async () => {
  const { env } = await fresh()
  const { pak, hash } = await generatePak()
  const configured = { ...env, BROKKR__BROKER__PAK_HASH: hash }
  const broker = await start(configured)
  const clientOf = await ready(broker)
  const commandEnv = { BROKKR__BROKER__ENCRYPTION_KEY: key, ...configured }
  const rotated = await rotateAdmin({ env: commandEnv })
  expect(await clientOf(rotated.pak!).verifyPak({})).toMatchObject({ admin: true })
  await expect(rotateAdmin({ env: commandEnv, useConfiguredHash: true })).rejects.toThrow('was revoked')
  await expect(clientOf(pak).verifyPak({})).rejects.toMatchObject({ code: 'unauthorized' })
  await broker.kill()
})
