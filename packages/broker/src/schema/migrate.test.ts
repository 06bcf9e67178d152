import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startTestBroker } from '@brokkr/testing/broker.ts'
import { emptyDatabase } from '@brokkr/testing/servers/postgres.ts'
import { expect, test } from 'vitest'
import { migrate, readMigrations } from './migrate.ts'

test('migrations run once, also when several processes start at the same time', async () => {
  const { url, connect } = await emptyDatabase()
  const outcomes = await Promise.all([migrate(url), migrate(url), migrate(url)])
  const count = (await readMigrations()).length
  expect(outcomes.map(({ applied }) => applied).reduce((sum, applied) => sum + applied)).toBe(count)
  const client = await connect()
  const { rows } = await client.query<{ count: string }>('select count(*) from schema_migrations')
  expect(Number(rows[0]?.count)).toBe(count)
  await client.end()
})

test('two schemas of one database do not meet', async () => {
  const { url, connect } = await emptyDatabase()
  await migrate(url, { schema: 'tenant_a' })
  await migrate(url, { schema: 'tenant_b' })
  const client = await connect()
  const { rows } = await client.query<{ a: string; b: string }>(
    'select a.epoch as a, b.epoch as b from tenant_a.feed_state a, tenant_b.feed_state b',
  )
  expect(rows[0]?.a).not.toBe(rows[0]?.b)
  await client.end()
})

test('a database that a newer or another build made is refused', async () => {
  const { url, connect } = await emptyDatabase()
  await migrate(url)
  const client = await connect()
  await client.query("update schema_migrations set checksum = 'other' where version = 1")
  await expect(migrate(url)).rejects.toThrow('0001_identities.sql differs')
  await client.query('insert into schema_migrations (version, checksum) values (9999, $1)', ['x'])
  await client.query('delete from schema_migrations where version = 1')
  await expect(migrate(url)).rejects.toThrow('start a newer release')
  await client.end()
})

test('a database older than the first release is refused with the command that recreates it', async () => {
  const { url, connect } = await emptyDatabase()
  const client = await connect()
  await client.query(
    'create table schema_migrations (version int primary key, checksum text not null, applied_at timestamptz not null default now())',
  )
  await client.query('insert into schema_migrations (version, checksum) values (1, $1), (36, $2)', [
    '685cf8dde391ae4f81496783d7d650b9e01ba1400b0b7c25e5833e627578e7dc',
    'x',
  ])
  await expect(startTestBroker({ databaseUrl: url })).rejects.toThrow('the database was made by a build before the first release')
  const refusal = await migrate(url).then(
    () => '',
    (error: Error) => error.message,
  )
  const command = /psql "\$DATABASE_URL" -c '([^']+)'/.exec(refusal)?.[1]
  await client.query(String(command))
  expect((await migrate(url)).applied).toBe((await readMigrations()).length)
  await client.end()
})

test.each(['a-b', '1a', '', 'a b', 'a;drop', 'x'.repeat(64)])('the schema name %j is refused before anything is sent', async (schema) => {
  await expect(migrate('postgres://nobody@127.0.0.1:1/none', { schema })).rejects.toThrow('must match')
})

test('files without a migration number are ignored', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'migrations-'))
  await writeFile(join(dir, '0001_a.sql'), 'select 1')
  await writeFile(join(dir, 'notes.txt'), 'x')
  expect((await readMigrations(dir)).map(({ name }) => name)).toEqual(['0001_a.sql'])
  await rm(dir, { recursive: true })
})

test('[S33] migrate rejects if the server closes the connection', async () => {
  const message = (letter: string, body: number[]) => Buffer.from([letter.charCodeAt(0), 0, 0, 0, body.length + 4, ...body])
  const greeting = Buffer.concat([message('R', [0, 0, 0, 0]), message('Z', ['I'.charCodeAt(0)])])
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy())
    socket.once('data', () => socket.end(greeting))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await expect(migrate(`postgresql://nobody:none@127.0.0.1:${port}/none`)).rejects.toThrow(/connection/i)
  server.close()
})
