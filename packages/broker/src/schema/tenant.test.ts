// Tenants in schemas of one database: each has its role, and neither reads, wakes nor locks the other.
// long: starts more than one broker
import { randomBytes } from 'node:crypto'
import { startTestBroker } from '@brokkr/testing/broker.ts'
import { emptyDatabase, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { toNotifyChannel } from '../change-feed/rules.ts'
import { migrate } from './migrate.ts'

const schemas = [`a_${randomBytes(3).toString('hex')}`, `b_${randomBytes(3).toString('hex')}`] as const
let database: TestDatabase
const urlOf = (schema: string): string => database.url.replace(/\/\/[^@]*@/, `//${schema}:x@`)
beforeAll(async () => {
  database = await emptyDatabase()
  const admin = await database.connect()
  for (const schema of schemas) {
    await admin.query(`create role ${schema} login password 'x'`)
    await admin.query(`create schema ${schema} authorization ${schema}`)
  }
  await admin.end()
  for (const schema of schemas) await migrate(urlOf(schema), { schema })
  return async () => {
    await database.drop()
  }
})

async function as<T>(schema: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: urlOf(schema) })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

test('[X13] the role of one schema is refused by every table of the other', async () => {
  const [own, foreign] = schemas
  const names = await as(foreign, async (client) =>
    (
      await client.query<{ name: string }>(
        `select relname as name from pg_class where relkind in ('r', 'p') and relnamespace = $1::regnamespace`,
        [foreign],
      )
    ).rows.map(({ name }) => name),
  )
  expect(names.length).toBeGreaterThan(20)
  await as(own, async (client) => {
    for (const name of names)
      for (const text of [`select * from ${foreign}.${name}`, `delete from ${foreign}.${name}`])
        expect(
          await client.query(text).then(
            () => 'done',
            (error: { code?: string }) => error.code,
          ),
        ).toBe('42501')
    expect((await client.query(`select count(*)::int as own from ${own}.admin_role`)).rows).toEqual([{ own: 0 }])
  })
})

test('[X13] a write produces change rows in its own schema for every search_path', async () => {
  const [own, foreign] = schemas
  const admin = await database.connect()
  const news = async (schema: string) =>
    (
      await admin.query<{ kind: string }>(
        `select kind from (select object_kind as kind, seq from ${schema}.change_log union all select 'deployment_object', null from ${schema}.deployment_objects
         where xid > '0') news order by seq nulls last`,
      )
    ).rows.map(({ kind }) => kind)
  const [before, foreignBefore] = [await news(own), await news(foreign)]
  const id = (of: number) => `'00000000-0000-0000-0000-00000000000${of}'::uuid`
  await admin.query(`begin; set local search_path = ${foreign}, public`)
  await admin.query(`insert into ${own}.generators (id, name) values (${id(1)}, 'g')`)
  await admin.query(`insert into ${own}.stacks (id, name, generator_id) values (${id(2)}, 's', ${id(1)})`)
  await admin.query(`with taken as (
      update ${own}.stacks set last_sequence = 1, sequence_xid = pg_current_xact_id(), head_object_id = ${id(3)} where id = ${id(2)} returning id)
    insert into ${own}.deployment_objects (id, stack_id, sequence_id, yaml_sealed, yaml_bytes, yaml_checksum, created_by_kind)
    select ${id(3)}, id, 1, '', 0, '', 'admin' from taken`)
  expect((await news(own)).slice(before.length)).toEqual(['generator', 'stack', 'stack', 'deployment_object'])
  expect(await news(foreign)).toEqual(foreignBefore)
  await admin.query('rollback')
  await admin.end()
})

test('[X13] brokers of two schemas neither hear nor hold up each other', async () => {
  const [own, foreign] = schemas
  const env = (schema: string) => ({
    BROKKR__DATABASE__SCHEMA: schema,
    BROKKR__DATABASE__POOL_SIZE: '4',
    BROKKR__FEED__POLL_MS: '600000',
    BROKKR__FEED__CANARY_SECONDS: '3600',
    BROKKR__FEED__LISTENER_TEST_SECONDS: '[3600, 5]',
  })
  const mine = await startTestBroker({ databaseUrl: urlOf(own), env: env(own) })
  const theirs = await startTestBroker({ databaseUrl: urlOf(foreign), env: env(foreign) })
  try {
    const admin = await database.connect()
    const heard: string[] = []
    admin.on('notification', ({ channel, payload }) => void (payload !== 'another process' && heard.push(channel)))
    // The change feed and the live sockets of each broker listen on channels of their schema.
    const channels = schemas.flatMap((schema) => [toNotifyChannel(schema), `live_${toNotifyChannel(schema)}`])
    expect(new Set(channels).size).toBe(4)
    const isHeard = async () => {
      await admin.query('select 1')
      return heard.some((channel) => channel.includes(foreign))
    }
    for (const channel of channels) await admin.query(`listen "${channel}"`)
    // A broker that is alone tells nobody; it greets whoever it hears of.
    await admin.query('select pg_notify($1, $2)', [
      channels.find((channel) => channel.includes(foreign) && !channel.startsWith('live_')),
      'another process',
    ])
    await waitFor('its greeting', isHeard)
    heard.length = 0
    // A transaction of one holds every gate of targeting; the other's targeting goes on.
    await admin.query('begin')
    for (let gate = 0; gate < 16; gate += 1) await admin.query(`lock table "${own}".target_gate_${gate} in access exclusive mode`)
    const { generator } = await theirs.admin.createGenerator({ body: { name: 'g' } })
    await theirs.admin.createStack({ body: { name: 's', generator_id: generator.id, labels: ['x'] } })
    await admin.query('commit')
    await waitFor('news of the other schema', isHeard)
    expect(heard.filter((channel) => channel.includes(own))).toEqual([])
    expect(await mine.admin.listGenerators({})).not.toContainEqual(expect.objectContaining({ name: 'g' }))
    await admin.end()
  } finally {
    await mine.kill()
    await theirs.kill()
  }
})
