// The rule for migrations (CONTRIBUTING.md): brokers of the release before serve while the next migration runs.
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { unique } from '@brokkr/testing/broker.ts'
import { configMapYaml, type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { emptyDatabase } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { migrationsDir } from '../assets.ts'
import { findConcurrentIndex } from './apply-migration.ts'
import { migrate, readMigrations } from './migrate.ts'

/** One of each permitted kind. */
const permitted = {
  '9001_table.sql': 'create table notes (id uuid primary key, stack_id uuid not null references stacks, note text)',
  '9002_column.sql': 'alter table stacks add column note text',
  '9003_column_with_default.sql': `alter table deployment_objects add column origin text not null default 'api'`,
  '9004_index.sql': '-- Lists by note.\ncreate index concurrently if not exists stacks_by_note on stacks (note);\n',
  '9005_check.sql': 'alter table agents add constraint agents_facts_object check (jsonb_typeof(facts) = $$object$$) not valid',
  '9006_checked.sql': 'alter table agents validate constraint agents_facts_object',
  '9007_function.sql': `create or replace function is_drifted(code text) returns int language sql immutable parallel safe as $$
    select case when code in ('drifted', 'drift_fight') then 1 else 0 end $$`,
  '9008_trigger.sql': `create function note_nothing() returns trigger language plpgsql as $$ begin return null; end $$;
    create trigger note_nothing after insert on agent_events for each row execute function note_nothing()`,
  '9009_index_dropped.sql': 'drop index concurrently if exists stacks_by_note',
}

async function nextMigrations(files: Record<string, string>, from: string | null = migrationsDir()): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'brokkr-migrations-'))
  onTestFinished(() => rm(dir, { recursive: true }))
  if (from !== null) await cp(from, dir, { recursive: true })
  for (const [name, text] of Object.entries(files)) await writeFile(join(dir, name), text)
  return dir
}

let world: FeedWorld
beforeAll(async () => {
  world = await feedWorld({ BROKKR__LOG__LEVEL: 'info' })
  return () => world.broker.kill()
})

test('a broker serves without an error while a migration of each permitted kind runs', async () => {
  const label = unique('l')
  const [stack, agent] = [await world.stack([label]), await world.agent([label])]
  const stream = await world.follow(agent)
  await stream.frame('snapshot_end')
  const dir = await nextMigrations(permitted)
  // A long read holds a lock on the tables that migrations change: they wait for it, and calls must not wait behind them.
  const reader = await world.db.connect()
  await reader.query('begin')
  await reader.query('select count(*) from stacks, deployment_objects, agents, agent_events')
  const load = { isDone: false }
  let calls = 0
  const repeat = async (call: () => Promise<unknown>): Promise<void> => {
    for (; !load.isDone; calls += 1) await call()
  }
  const params = { id: agent.agent.id }
  const yaml_content = configMapYaml('v')
  // The client throws for every answer that is an error.
  const calling = Promise.all([
    repeat(() => world.tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content } })),
    repeat(() => agent.client.recordHeartbeat({ params })),
    repeat(() => agent.client.getTargetState({ params })),
    repeat(() => world.broker.admin.listStacks({})),
    repeat(() => world.stack([label])),
  ])
  calling.catch(() => (load.isDone = true))
  const migrating = migrate(world.db.url, { dir })
  const blocked = `select from pg_stat_activity where application_name = 'brokkr-migrate' and wait_event_type = 'Lock'`
  await waitFor('a migration to wait for the long read', async () => (await world.sql(blocked)).length > 0)
  const before = calls
  await waitFor('calls to be served meanwhile', () => calls > before + 20)
  await reader.end()
  const outcome = await migrating
  load.isDone = true
  await calling
  expect(outcome.applied).toBe(Object.keys(permitted).length)
  const last = await world.submit(stack.id, 'after the migrations')
  await stream.frame('put', (frame) => frame.object?.id === last.id)
  stream.close()
})

test('an index that a failed attempt left invalid is built again', async () => {
  const { url, connect } = await emptyDatabase()
  const client = await connect()
  await client.query('create table things (n int)')
  await client.query('insert into things values (1), (1)')
  const dir = await nextMigrations({ '0001_unique.sql': 'create unique index concurrently if not exists unique_n on things (n)' }, null)
  await expect(migrate(url, { dir })).rejects.toThrow('migration 0001_unique.sql failed')
  await client.query('delete from things where ctid = (select min(ctid) from things)')
  expect((await migrate(url, { dir })).applied).toBe(1)
  expect((await client.query(`select indisvalid from pg_index where indexrelid = 'unique_n'::regclass`)).rows).toEqual([
    { indisvalid: true },
  ])
  await client.end()
})

test.each([
  'create index concurrently if not exists a on b (c); create index d on b (e)',
  'create index concurrently a on b (c)',
  'reindex index concurrently a',
])('a file with %j is refused', (text) => {
  expect(() => findConcurrentIndex({ name: '0002_x.sql', text })).toThrow('0002_x.sql must hold one')
})

test('migrations after the first schema build and drop indexes concurrently', async () => {
  const firstSchema = 14
  const later = (await readMigrations()).filter(({ version }) => version > firstSchema)
  // An index of a table that the same migration creates blocks no writer.
  const isOfNewTable = (text: string, table: string) => new RegExp(`create table ${table}\\b`).test(text)
  const offending = later.filter((migration) => {
    if (findConcurrentIndex(migration) !== null) return false
    const tables = [...migration.text.matchAll(/create\s+(?:unique\s+)?index\s+\S+\s+on\s+(\w+)/gi)].map(([, table = '']) => table)
    return /\bdrop\s+index\b/i.test(migration.text) || tables.some((table) => !isOfNewTable(migration.text, table))
  })
  expect(offending.map(({ name }) => name)).toEqual([])
})
