// Another history of the database: a standby that is promoted without the last commits, one that is only read, a dump that is
// restored elsewhere. Cursors of the old history must open nothing but a snapshot, and nothing may be taken away by mistake.
// long: a standby is copied and promoted
import { join } from 'node:path'
import {
  createAgent,
  createGenerator,
  startTestBroker,
  type TestAgent,
  type TestBroker,
  type TestGenerator,
  unique,
} from '@brokkr/testing/broker.ts'
import { startSwitchProxy } from '@brokkr/testing/faults/switch-proxy.ts'
import { configMapYaml } from '@brokkr/testing/feed-world.ts'
import { privatePostgres } from '@brokkr/testing/servers/postgres.ts'
import { coldBackup } from '@brokkr/testing/servers/postgres-backup.ts'
import { startStandby } from '@brokkr/testing/servers/postgres-standby.ts'
import { readStream, type StreamReader } from '@brokkr/testing/stream-reader.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import pg from 'pg'
import { expect, test } from 'vitest'
import { migrate } from '../schema/migrate.ts'
import { parseCursor } from './reader/cursor.ts'

const socketOf = ({ socketDir, port }: { socketDir: string; port: number }) => ({ path: join(socketDir, `.s.PGSQL.${port}`) })
const submit = ({ client }: TestGenerator, id: string, value: string) =>
  client.createDeploymentObject({ params: { id }, body: { yaml_content: configMapYaml(value) } })
const follow = ({ url }: TestBroker, { agent, pak }: TestAgent, cursor?: string): Promise<StreamReader> =>
  readStream(url, { agentId: agent.id, pak, ...(cursor === undefined ? {} : { cursor }) })
const sqlAt = async <Row extends object>(url: string, text: string, values: unknown[] = []): Promise<Row[]> => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query<Row>(text, values)).rows
  } finally {
    await client.end()
  }
}
const epochAt = async (url: string) => (await sqlAt<{ epoch: string }>(url, 'select epoch from feed_state'))[0]!.epoch

test('[S34] agents receive snapshots after failover to a lagging standby', async () => {
  const primary = await privatePostgres()
  const { name, url } = await primary.database()
  const address = await startSwitchProxy({ target: socketOf(primary) })
  const databaseUrl = `postgresql://postgres:${primary.password}@127.0.0.1:${address.port}/${name}`
  const broker = await startTestBroker({
    databaseUrl,
    env: { BROKKR__LOG__LEVEL: 'info', BROKKR__FEED__PING_SECONDS: '0.2', BROKKR__FEED__SNAPSHOTS: '2', BROKKR__FEED__POLL_MS: '200' },
  })
  const tenant = await createGenerator(broker)
  const label = unique('l')
  const stacks = []
  for (let n = 0; n < 10; n += 1)
    stacks.push(await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id, labels: [label] } }))
  for (const { id } of stacks) await submit(tenant, id, 'survives')
  const agents = []
  for (let n = 0; n < 6; n += 1) agents.push(await createAgent(broker, { labels: [label], generators: [tenant] }))
  const standby = await startStandby(primary)
  await standby.caughtUp()
  const streams = await Promise.all(agents.map((agent) => follow(broker, agent)))
  for (const stream of streams) await stream.frame('snapshot_end')
  const epoch = await epochAt(url)

  // Twenty commits that no replica ever sees: told to the agents, then lost.
  standby.link.cut()
  for (let n = 0; n < 20; n += 1) await submit(tenant, stacks[n % 10]!.id, `lost ${n}`)
  for (const stream of streams)
    await waitFor('what will be lost to arrive', () => [...stream.wanted().values()].every(({ rev }) => rev === 3))
  await Promise.all(streams.map((stream) => stream.bookmarkAfter(stream.frames.findLast((frame) => frame.type === 'put')!)))
  await primary.kill('SIGKILL')
  await standby.promote()
  address.switchTo(socketOf(standby.server))

  const byes = await Promise.all(streams.map((stream) => stream.frame('bye', (frame) => frame.reason === 'epoch')))
  expect(new Set(byes.map(({ retry_after_ms }) => retry_after_ms)).size).toBeGreaterThan(1)
  expect(Math.max(...byes.map(({ retry_after_ms }) => retry_after_ms))).toBeLessThanOrEqual(30_000)
  const renewed = await waitFor('a new epoch', async () => {
    const now = await epochAt(standby.server.url(name))
    return now === epoch ? undefined : now
  })
  for (const [n, agent] of agents.entries()) {
    // With the newest cursor of the lost history, as an agent comes back.
    const cursor = streams[n]!.frames.findLast((frame) => frame.type === 'bookmark')!.cursor
    const again = await waitFor('a stream', async () => {
      const tried = await follow(broker, agent, cursor)
      return tried.status === 200 ? tried : undefined
    })
    expect(await again.frame('hello')).toMatchObject({ mode: 'snapshot', reason: 'epoch', epoch: renewed })
    const end = await again.frame('snapshot_end')
    expect(end).toMatchObject({ count: 10, removals: 0 })
    expect([...again.wanted().values()].map(({ rev }) => rev)).toEqual(Array.from({ length: 10 }, () => 1))
    expect(again.frames.some((frame) => frame.type === 'del')).toBe(false)
    const { cursor_key: key } = (await sqlAt<{ cursor_key: Buffer }>(standby.server.url(name), 'select cursor_key from feed_state'))[0]!
    expect(parseCursor(key, end.cursor)?.epoch).toBe(renewed)
    again.close()
  }
  // The new history goes on: its commits arrive, under cursors of its own.
  const [first] = agents
  const live = await follow(broker, first!)
  await live.frame('snapshot_end')
  const object = await submit(tenant, stacks[0]!.id, 'after')
  await live.frame('put', (frame) => frame.object?.id === object.id && frame.rev === 2)
  live.close()
  // Said once, not once per poll.
  expect(broker.lines().filter((line) => String(line['msg']).includes('new epoch')).length).toBeLessThanOrEqual(2)
  await broker.kill()
  await standby.stop()
  await address.close()
}, 180_000)

test('[S35] a broker on a hot standby issues no cursor and is not ready', async () => {
  const primary = await privatePostgres()
  const { name } = await primary.database()
  const address = await startSwitchProxy({ target: socketOf(primary) })
  const broker = await startTestBroker({
    databaseUrl: `postgresql://postgres:${primary.password}@127.0.0.1:${address.port}/${name}`,
    env: { BROKKR__FEED__PING_SECONDS: '0.2', BROKKR__FEED__STALE_SECONDS: '0.5,3', BROKKR__FEED__POLL_MS: '200' },
  })
  const tenant = await createGenerator(broker)
  const agent = await createAgent(broker, { generators: [tenant] })
  const standby = await startStandby(primary)
  await standby.caughtUp()
  const stream = await follow(broker, agent)
  const { cursor } = await stream.frame('snapshot_end')
  const before = await epochAt(primary.url(name))
  address.switchTo(socketOf(standby.server))
  await waitFor('not ready', async () => {
    const answer = await fetch(`${broker.url}/readyz`)
    return answer.status === 503 && (await answer.text()).includes('not primary')
  })
  for (const given of [undefined, cursor]) {
    const refused = await fetch(`${broker.url}/api/v1/agents/${agent.agent.id}/stream${given === undefined ? '' : `?cursor=${given}`}`, {
      headers: { authorization: `Bearer ${agent.pak}` },
    })
    expect([refused.status, ((await refused.json()) as { code: string }).code, refused.headers.has('retry-after')]).toEqual([
      503,
      'feed_unavailable',
      true,
    ])
  }
  await stream.frame('ping', (frame) => frame.stale)
  const at = stream.frames.findIndex((frame) => frame.type === 'ping' && frame.stale)
  await stream.frame('bye', (frame) => frame.reason === 'stale')
  expect(stream.frames.slice(at).some((frame) => frame.type === 'bookmark' || frame.type === 'put' || frame.type === 'del')).toBe(false)
  expect(await epochAt(standby.server.url(name))).toBe(before)
  // Back at the primary everything goes on where it was.
  address.switchTo(socketOf(primary))
  const again = await waitFor('a stream again', async () => {
    const tried = await follow(broker, agent, cursor)
    return tried.status === 200 ? tried : undefined
  })
  expect(await again.frame('hello')).toMatchObject({ mode: 'resume', epoch: before })
  again.close()
  await broker.kill()
  await standby.stop()
  await primary.stop()
  await address.close()
}, 120_000)

test('[S36] a dump restored into a new cluster rejects old cursors by epoch', async () => {
  const old = await privatePostgres()
  const { url: oldUrl } = await old.database()
  // The old cluster has had many more transactions than the new one.
  await migrate(oldUrl, { schema: 'public' })
  const first = await startTestBroker({ databaseUrl: oldUrl })
  const tenant = await createGenerator(first)
  const label = unique('l')
  const stack = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id, labels: [label] } })
  const agent = await createAgent(first, { labels: [label], generators: [tenant] })
  await sqlAt(oldUrl, `do $$ begin for n in 1..3000 loop perform pg_current_xact_id(); commit; end loop; end $$`)
  await submit(tenant, stack.id, 'kept')
  const stream = await follow(first, agent)
  const { cursor } = await stream.frame('snapshot_end')
  await stream.frame('bookmark')
  const epoch = await epochAt(oldUrl)
  // The floor and the marks of the clean-up travel along: they are numbers of the old cluster's transactions.
  await sqlAt(oldUrl, `insert into feed_marks select now() - interval '30 hours', pg_snapshot_xmin(pg_current_snapshot())`)
  await sqlAt(oldUrl, `update feed_state set floor_xid = pg_snapshot_xmin(pg_current_snapshot())`)
  stream.close()
  await first.kill()

  const fresh = await privatePostgres()
  const { url: newUrl } = await fresh.database()
  await restore(oldUrl, newUrl)
  const second = await startTestBroker({
    databaseUrl: newUrl,
    env: {
      ...secretsOf(first),
      BROKKR__TASKS__CHANGE_LOG_CLEANUP__EVERY_SECONDS: '0.2',
      BROKKR__FEED__POLL_MS: '200',
    },
  })
  const renewed = await epochAt(newUrl)
  expect(renewed).not.toBe(epoch)
  const again = await follow(second, agent, cursor)
  expect(await again.frame('hello')).toMatchObject({ mode: 'snapshot', reason: 'epoch', epoch: renewed })
  const end = await again.frame('snapshot_end')
  expect(end).toMatchObject({ count: 1, removals: 0 })
  // New cursors are good for a resume: neither the old floor nor the old marks make them look too old.
  const client = second.clientOf(tenant.pak)
  const object = await client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: configMapYaml('new') } })
  const { cursor: latest } = await again.bookmarkAfter(await again.frame('put', (frame) => frame.object?.id === object.id))
  again.close()
  const resumed = await follow(second, agent, latest)
  expect(await resumed.frame('hello')).toMatchObject({ mode: 'resume' })
  resumed.close()
  // Rows of transactions that the new cluster has not had are no news for ever.
  expect(await sqlAt(newUrl, 'select from change_log where xid >= pg_snapshot_xmax(pg_current_snapshot())')).toEqual([])
  const read = async () =>
    Number(/brokkr_feed_rows_total\{source="poll"\} (\d+)/.exec(await (await fetch(`${second.url}/metrics`)).text())?.[1])
  const polls = async () => Number(/brokkr_feed_polls_total (\d+)/.exec(await (await fetch(`${second.url}/metrics`)).text())?.[1])
  const [rowsBefore, pollsBefore] = [await read(), await polls()]
  await waitFor('more polls', async () => (await polls()) > pollsBefore + 3)
  expect((await read()) - rowsBefore).toBeLessThan(20)
  await second.kill()
  await Promise.all([old.stop(), fresh.stop()])
}, 120_000)

test('[S36] a dump loaded on the same server rejects old cursors by epoch', async () => {
  const server = await privatePostgres()
  const { url: oldUrl } = await server.database()
  await migrate(oldUrl, { schema: 'public' })
  const first = await startTestBroker({ databaseUrl: oldUrl })
  const agent = await createAgent(first, { generators: [] })
  const stream = await follow(first, agent)
  const { cursor } = await stream.frame('snapshot_end')
  stream.close()
  await first.kill()
  const { url: newUrl } = await server.database()
  await restore(oldUrl, newUrl)
  const second = await startTestBroker({ databaseUrl: newUrl, env: secretsOf(first) })
  const again = await follow(second, agent, cursor)
  expect(await again.frame('hello')).toMatchObject({ mode: 'snapshot', reason: 'epoch' })
  again.close()
  await second.kill()
  await server.stop()
}, 120_000)

test('[S36] a backup restored in place starts a new epoch, and a restart does not', async () => {
  const server = await privatePostgres()
  const { url } = await server.database()
  const env = { BROKKR__FEED__POLL_MS: '200' }
  let broker = await startTestBroker({ databaseUrl: url, env })
  const agent = await createAgent(broker, { generators: [] })
  const cursorNow = async () => {
    const stream = await follow(broker, agent)
    const { boot } = await stream.frame('hello')
    const { cursor } = await stream.frame('bookmark')
    stream.close()
    return { cursor, boot: boot! }
  }
  const { cursor: kept, boot: firstBoot } = await cursorNow()
  const epoch = await epochAt(url)
  const backup = await coldBackup(server)
  // A restart by itself: the cursor from before it is good, and the boot is another. Until the broker has noticed, streams end at once.
  const resumed = await waitFor('a stream that goes on', async () => {
    const stream = await follow(broker, agent, kept)
    const first = await Promise.race([stream.frame('bookmark'), stream.ended])
    return first === undefined ? null : stream
  })
  expect(await resumed.frame('hello')).toMatchObject({ mode: 'resume', epoch })
  resumed.close()
  const lost = await cursorNow()
  expect(lost.boot).not.toBe(firstBoot)
  await broker.kill()
  await backup.restore()
  await sqlAt(url, `do $$ begin for n in 1..2000 loop perform pg_current_xact_id(); commit; end loop; end $$`)
  broker = await broker.again()
  // What nobody lost is still good. A list for somebody without a cursor says that the server has started.
  for (const wish of [{ cursor: kept }, {}]) {
    const stream = await readStream(broker.url, { agentId: agent.agent.id, pak: agent.pak, ...wish })
    const hello = await stream.frame('hello')
    expect([hello.epoch, [firstBoot, lost.boot].includes(hello.boot!)]).toEqual([epoch, false])
    await stream.frame('bookmark')
    stream.close()
  }
  // Whoever asks for a list, and shows what he has seen, is not given one of the old epoch either.
  const shown = await readStream(broker.url, { agentId: agent.agent.id, pak: agent.pak, query: { seen: lost.cursor, reason: 'daily' } })
  await shown.ended
  expect(shown.frames.map(({ type }) => type)).toEqual(['hello', 'bye'])
  const renewed = await waitFor('a new epoch', async () => (await epochAt(url)) !== epoch && (await epochAt(url)))
  for (const cursor of [lost.cursor, kept]) {
    const after = await follow(broker, agent, cursor)
    expect(await after.frame('hello')).toMatchObject({ mode: 'snapshot', reason: 'epoch', epoch: renewed })
    await after.frame('snapshot_end')
    after.close()
  }
  expect(await epochAt(url)).toBe(renewed)
  await broker.kill()
  await server.stop()
}, 120_000)

test('[S36] a polled list from a lost epoch starts a new epoch', async () => {
  const server = await privatePostgres()
  const { url } = await server.database()
  let broker = await startTestBroker({ databaseUrl: url })
  const { agent, pak } = await createAgent(broker, { generators: [] })
  const poll = async (seen?: string) => {
    const path = `/api/v1/agents/${agent.id}/target-state?mode=full${seen === undefined ? '' : `&seen=${seen}`}`
    const { headers, status } = await fetch(`${broker.url}${path}`, { headers: { authorization: `Bearer ${pak}` } })
    return {
      status,
      count: headers.get('x-brokkr-count'),
      cursor: headers.get('x-brokkr-cursor')!,
      history: headers.get('x-brokkr-history'),
    }
  }
  expect((await poll('x')).status).toBe(400)
  await broker.kill()
  const backup = await coldBackup(server)
  broker = await broker.again()
  const before = await poll()
  expect(before).toMatchObject({ status: 200, count: '0', history: `${await epochAt(url)}/${await bootAt(url)}` })
  await broker.kill()
  await backup.restore()
  await sqlAt(url, `do $$ begin for n in 1..2000 loop perform pg_current_xact_id(); commit; end loop; end $$`)
  broker = await broker.again()
  expect(await poll(before.cursor)).toMatchObject({ status: 200, count: null, history: null })
  const epoch = before.history!.split('/')[0]
  await waitFor('a new epoch', async () => (await epochAt(url)) !== epoch)
  const after = await waitFor('a list that counts', async () => {
    const polled = await poll(before.cursor)
    return polled.count === '0' && polled
  })
  expect(after.history).toBe(`${await epochAt(url)}/${await bootAt(url)}`)
  await broker.kill()
  await server.stop()
}, 120_000)

const bootAt = async (url: string) => (await sqlAt<{ boot: string }>(url, 'select boot from feed_state'))[0]!.boot
const secretsOf = ({ encryptionKey }: TestBroker) => ({ BROKKR__BROKER__ENCRYPTION_KEY: encryptionKey, BROKKR__BROKER__PAK_HASH: '' })

/** What a dump holds, restored by its schema and its rows: tables in the order of their references, sequences where they stood. */
async function restore(from: string, to: string): Promise<void> {
  await migrate(to, { schema: 'public' })
  const source = new pg.Client({ connectionString: from })
  const target = new pg.Client({ connectionString: to })
  await Promise.all([source.connect(), target.connect()])
  await target.query(`set session_replication_role = 'replica'`)
  const { rows: tables } = await source.query<{ name: string }>(
    `select c.relname as name from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and not c.relispartition
     union all select c.relname from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and c.relispartition`,
  )
  for (const { name } of tables) {
    const exists = await target.query('select to_regclass($1) as found', [name])
    if ((exists.rows[0] as { found: string | null }).found === null) continue
    await target.query(`set local brokkr.purge = 'on'`).catch(() => undefined)
    await target.query(`delete from ${name}`)
    const { rows: columns } = await source.query<{ name: string }>(
      `select attname as name from pg_attribute where attrelid = $1::regclass and attnum > 0 and not attisdropped and attgenerated = ''`,
      [name],
    )
    const list = columns.map((column) => `"${column.name}"`).join(', ')
    const { rows } = await source.query<{ row: string }>(`select row_to_json(t)::text as row from ${name} t`)
    for (const { row } of rows)
      await target.query(
        `insert into ${name} (${list}) overriding system value select ${list} from json_populate_record(null::${name}, $1::json)`,
        [row],
      )
  }
  const { rows: sequences } = await source.query<{ name: string; value: string | null }>(
    `select quote_ident(sequencename) as name, last_value::text as value from pg_sequences where schemaname = 'public'`,
  )
  for (const { name, value } of sequences) if (value !== null) await target.query('select setval($1::regclass, $2::bigint)', [name, value])
  await Promise.all([source.end(), target.end()])
}
