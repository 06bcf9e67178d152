// Tasks, settings and the feed's own figures as an operator sees them, over two processes.
// long: starts more than one broker
import { createAgent, createGenerator, startTestBroker, type TestBroker, type TestGenerator, unique } from '@brokkr/testing/broker.ts'
import { database, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import { readStream } from '@brokkr/testing/stream-reader.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'

let db: TestDatabase
let broker: TestBroker
let other: TestBroker
let tenant: TestGenerator
beforeAll(async () => {
  db = await database()
  const env = {
    BROKKR__TASKS__CHANGE_LOG_CLEANUP__EVERY_SECONDS: '0.3',
    BROKKR__TASKS__AGENT_LIVENESS__EVERY_SECONDS: '0.3',
    BROKKR__FEED__CANARY_SECONDS: '0.2',
  }
  broker = await startTestBroker({ databaseUrl: db.url, env })
  other = await broker.sibling()
  tenant = await createGenerator(broker)
  return () => Promise.all([broker.kill(), other.kill()])
})
const rows = async <Row extends object>(text: string, values: unknown[] = []): Promise<Row[]> => {
  const client = await db.connect()
  const found = await client.query<Row>(text, values)
  await client.end()
  return found.rows
}

test('tasks are listed with their interval and their last run', async () => {
  const tasks = await waitFor('the first runs', async () => {
    const listed = await broker.admin.listTasks({})
    return listed.filter(({ last_run_at }) => last_run_at !== null).length >= 2 && listed
  })
  expect(tasks.map(({ name, every_seconds }) => [name, every_seconds])).toEqual([
    ['change-log-cleanup', 0.3],
    ['agent-liveness', 0.3],
    ['audit-cleanup', 86_400],
    ['housekeeping', 600],
    ['target-verify', 86_400],
    ['summary-verify', 86_400],
    ['webhook-delivery', 5],
    ['webhook-cleanup', 3600],
    ['telemetry-cleanup', 60],
    ['work-order-maintenance', 10],
    ['diagnostic-cleanup', 900],
  ])
  expect(tasks[1]).toMatchObject({ last_result: { disconnected: 0 }, last_error: null })
})

test('settings are listed with their source, and secrets are not', async () => {
  const settings = await broker.admin.getConfig({})
  expect(settings['server.port']).toMatchObject({ source: 'env', reloadable: false })
  expect(settings['broker.manifest_validation']).toEqual({ value: 'lenient', source: 'default', reloadable: true })
  expect(settings['database.url']?.value).toBe('***')
  expect(settings['broker.encryption_key']?.value).toBe('***')
  expect(settings['broker.pak_hash']?.value).toBe('***')
  expect(settings['tasks.change-log-cleanup.every_seconds']).toMatchObject({ value: 0.3, reloadable: true })
  const text = JSON.stringify(settings)
  for (const secret of [broker.encryptionKey, broker.databaseUrl]) expect(text).not.toContain(secret)
})

test('[S16] a cursor below the floor gets a snapshot, even without lost rows in its scopes', async () => {
  const label = unique('l')
  const stack = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id, labels: [label] } })
  const agent = await createAgent(broker, { labels: [label], generators: [tenant] })
  const at = { agentId: agent.agent.id, pak: agent.pak }
  const first = await readStream(broker.url, at)
  const { cursor } = await first.frame('snapshot_end')
  first.close()
  const resumed = await readStream(other.url, { ...at, cursor })
  expect(await resumed.frame('hello')).toMatchObject({ mode: 'resume' })
  resumed.close()
  // A day passes: the log is cleaned up to now, and nothing of this agent was in it.
  await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id } })
  await rows(`insert into feed_marks (taken_at, low_xid) values (now() - interval '25 hours', pg_snapshot_xmax(pg_current_snapshot()))`)
  for (const at_ of [broker, other]) {
    const late = await waitFor('the floor is known', async () => {
      const stream = await readStream(at_.url, { ...at, cursor })
      const hello = await stream.frame('hello')
      if (hello.mode === 'snapshot') return stream
      stream.close()
      return null
    })
    expect(await late.frame('hello')).toMatchObject({ mode: 'snapshot', reason: 'gone' })
    expect(await late.frame('snapshot_end')).toMatchObject({ count: 1, removals: 0 })
    expect(late.wanted().has(stack.id)).toBe(true)
    late.close()
  }
})

test('feed metrics report lag, wake-up sources and the age of the floor', async () => {
  const figures = async (at: TestBroker) => {
    const text = await (await fetch(`${at.url}/metrics`)).text()
    return (name: string) => Number(new RegExp(`^${name.replace(/[{}"]/g, '\\$&')} (\\S+)`, 'm').exec(text)?.[1])
  }
  for (const at of [broker, other]) {
    await waitFor(
      'canaries of both processes were timed',
      async () => (await figures(at))('brokkr_stream_propagation_seconds_count{stage="seen"}') >= 4,
    )
    const figure = await figures(at)
    expect(figure('brokkr_feed_listener_up')).toBe(1)
    expect(figure('brokkr_feed_polls_total')).toBeGreaterThan(0)
    expect(figure('brokkr_feed_rows_total{source="notify"}')).toBeGreaterThan(0)
    expect(figure('brokkr_feed_lag_seconds')).toBeLessThan(10)
    expect(figure('brokkr_feed_floor_age_seconds')).toBeGreaterThan(24 * 3600)
    expect(figure('brokkr_feed_batch_seconds_count')).toBeGreaterThan(0)
  }
  const [canaries] = await rows<{ n: number }>(`select count(distinct object_id)::int as n from change_log where object_kind = 'canary'`)
  expect(canaries?.n).toBe(2)
})
