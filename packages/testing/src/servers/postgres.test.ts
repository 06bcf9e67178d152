import { expect, onTestFinished, test } from 'vitest'
import { beginTestFile } from '../test-file-count.ts'
import { waitFor } from '../wait-for.ts'
import { callServers } from './owner/client.ts'
import { database, emptyDatabase, type PrivatePostgres, privatePostgres } from './postgres.ts'

test('a database has the schema of the broker, and an empty one has nothing', async () => {
  expect(await tables(await database())).toContain('schema_migrations')
  expect(await tables(await emptyDatabase())).toEqual([])
})

test('data of one clone is in no other clone', async () => {
  const [first, second] = await Promise.all([database(), database()])
  await run(first, 'create table mine (id int)')
  expect(await tables(first)).toContain('mine')
  const later = await database()
  for (const other of [second, later]) expect(await tables(other)).not.toContain('mine')
  expect(new Set([first.name, second.name, later.name]).size).toBe(3)
})

test('twenty clones at once are twenty databases', async ({ annotate }) => {
  await database()
  const startedMs = performance.now()
  const clones = await Promise.all(Array.from({ length: 20 }, () => database()))
  await annotate(`a clone of the migrated template: ${((performance.now() - startedMs) / 20).toFixed(1)} ms`)
  expect(new Set(clones.map(({ name }) => name)).size).toBe(20)
  await Promise.all(clones.map((clone) => clone.drop()))
})

test('a database is dropped despite open connections', async () => {
  const dropped = await emptyDatabase()
  const client = await dropped.connect()
  const ended = new Promise((resolve) => client.once('error', resolve))
  await dropped.drop()
  await ended
  await expect(dropped.connect()).rejects.toThrow(/does not exist/)
})

test('the shared server has wal_level logical and does not wait for the disk', async () => {
  const client = await (await emptyDatabase()).connect()
  onTestFinished(() => client.end())
  const { rows } = await client.query(`select name, setting from pg_settings where name in ('wal_level', 'fsync') order by name`)
  expect(rows).toEqual([
    { name: 'fsync', setting: 'off' },
    { name: 'wal_level', setting: 'logical' },
  ])
})

test('a private server keeps committed rows after kill -9, and the shared one runs on', async () => {
  const shared = await (await emptyDatabase()).connect()
  onTestFinished(() => shared.end())
  const server = await ownServer()
  const { url, name, connect } = await server.database()
  const before = await connect()
  await before.query('create table kept (id int); insert into kept values (7)')
  const { pid } = server
  await server.kill('SIGKILL')
  await expect(connect()).rejects.toThrow(/ENOENT|ECONNREFUSED/)
  await server.restart()
  expect(server.pid).not.toBe(pid)
  expect(server.url(name)).toBe(url)
  const after = await connect()
  onTestFinished(() => after.end())
  expect((await after.query('select id from kept')).rows).toEqual([{ id: 7 }])
  expect((await shared.query('select 1 as one')).rows).toEqual([{ one: 1 }])
})

test('two private servers run with their own settings and are known to the owner', async () => {
  const servers = await Promise.all([
    ownServer({ settings: { max_connections: '17' } }),
    ownServer({ settings: { max_connections: '18' } }),
  ])
  const limits = await Promise.all(servers.map(async (server) => (await run(await server.database(), 'show max_connections')).rows))
  expect(limits).toEqual([[{ max_connections: '17' }], [{ max_connections: '18' }]])
  const { processes } = await callServers('status', {})
  expect(processes.map(({ pid }) => pid)).toEqual(expect.arrayContaining(servers.map(({ pid }) => pid)))
})

test('loans of an earlier test file are released when its worker starts the next', async () => {
  const earlier = await emptyDatabase()
  const server = await ownServer()
  beginTestFile()
  const asker = await (await emptyDatabase()).connect()
  onTestFinished(() => asker.end())
  await waitFor('the earlier database to go', async () => {
    const { rows } = await asker.query('select from pg_database where datname = $1', [earlier.name])
    return rows.length === 0
  })
  await waitFor('the private server to be ended', () => !server.isRunning())
  expect(server.isRunning()).toBe(false)
})

async function ownServer(options: Parameters<typeof privatePostgres>[0] = {}): Promise<PrivatePostgres> {
  const server = await privatePostgres(options)
  onTestFinished(() => server.stop())
  return server
}

async function tables(from: { connect(): ReturnType<Awaited<ReturnType<typeof database>>['connect']> }): Promise<string[]> {
  const { rows } = await run(from, `select tablename from pg_tables where schemaname = 'public' order by 1`)
  return rows.map((row) => String(row['tablename']))
}

async function run(on: Pick<Awaited<ReturnType<typeof database>>, 'connect'>, text: string) {
  const client = await on.connect()
  try {
    return await client.query<Record<string, unknown>>(text)
  } finally {
    await client.end()
  }
}
