import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { emptyDatabase } from '@brokkr/testing/postgres.ts'
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

test.each(['a-b', '1a', '', 'a b', 'a;drop', 'x'.repeat(64)])('the schema name %j is refused before anything is sent', async (schema) => {
  await expect(migrate('postgres://nobody@127.0.0.1:1/none', { schema })).rejects.toThrow('must match')
})

test('files that are not numbered migrations are left alone', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'migrations-'))
  await writeFile(join(dir, '0001_a.sql'), 'select 1')
  await writeFile(join(dir, 'notes.txt'), 'x')
  expect((await readMigrations(dir)).map(({ name }) => name)).toEqual(['0001_a.sql'])
  await rm(dir, { recursive: true })
})
