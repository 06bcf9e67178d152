// PostgreSQL goes away under load and comes back: the broker answers what it can say, loses nothing it has acknowledged, goes on
// by itself, and its log stays readable.
import {
  createAgent,
  createGenerator,
  startTestBroker,
  type TestAgent,
  type TestBroker,
  type TestGenerator,
  unique,
} from '@brokkr/testing/broker.ts'
import { type PrivatePostgres, privatePostgres } from '@brokkr/testing/servers/postgres.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { readStream, type StreamReader } from '@brokkr/testing/stream-reader.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'

let server: PrivatePostgres
let broker: TestBroker
let tenant: TestGenerator
let agent: TestAgent
const label = unique('l')
let databaseUrl: string
beforeAll(async () => {
  server = await privatePostgres()
  databaseUrl = (await server.database()).url
  broker = await startTestBroker({
    databaseUrl,
    env: {
      BROKKR__LOG__LEVEL: 'info',
      BROKKR__FEED__STALE_SECONDS: '0.5,60',
      BROKKR__FEED__PING_SECONDS: '0.2',
      BROKKR__TASKS__AGENT_LIVENESS__EVERY_SECONDS: '0.2',
      BROKKR__TASKS__CHANGE_LOG_CLEANUP__EVERY_SECONDS: '0.2',
      BROKKR__FEED__CANARY_SECONDS: '0.2',
      BROKKR__DATABASE__POOL_SIZE: '20',
    },
  })
  tenant = await createGenerator(broker)
  agent = await createAgent(broker, { labels: [label], generators: [tenant] })
  return async () => {
    await broker.kill()
    await server.stop()
  }
})

interface Seen {
  readonly status: number
  readonly code: string | null
  readonly retryAfter: string | null
  readonly id: string | null
}
async function call(path: string, options: { pak: string; method?: string; body?: unknown }): Promise<Seen> {
  const response = await fetch(`${broker.url}/api/v1${path}`, {
    method: options.method ?? 'GET',
    headers: { authorization: `Bearer ${options.pak}`, ...(options.body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
  })
  const text = await response.text()
  const json = (text.startsWith('{') ? JSON.parse(text) : {}) as { code?: string; id?: string }
  return { status: response.status, code: json.code ?? null, retryAfter: response.headers.get('retry-after'), id: json.id ?? null }
}

/** Writers and readers that go on until they are told to stop. */
function load(stackIds: readonly string[], seen: Seen[]): { stop(): Promise<void> } {
  const over = new AbortController()
  const work: ((id: string) => Promise<Seen>)[] = [
    (id) => call(`/stacks/${id}/deployment-objects`, { pak: tenant.pak, method: 'POST', body: { yaml_content: 'a: {b: 1}' } }),
    (id) => call(`/stacks/${id}`, { pak: tenant.pak }),
    () => call(`/agents/${agent.agent.id}/heartbeat`, { pak: agent.pak, method: 'POST', body: {} }),
    () => call('/generators', { pak: broker.adminPak }),
  ]
  const workers = stackIds.flatMap((id) =>
    work.map(async (one) => {
      while (!over.signal.aborted) seen.push(await one(id))
    }),
  )
  return {
    stop: async () => {
      over.abort()
      await Promise.all(workers)
    },
  }
}
const newStack = () => tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id, labels: [label] } })
/** What an operator would have to read. */
const complaints = () => broker.lines().filter((line) => Number(line['level']) >= 40 || ['warn', 'error'].includes(String(line['level'])))

test('[S33] a PostgreSQL restart returns 503 with Retry-After and loses no acknowledged write', async () => {
  const stacks = await Promise.all([1, 2, 3].map(newStack))
  const streams: StreamReader[] = await Promise.all([1, 2].map(() => readStream(broker.url, { agentId: agent.agent.id, pak: agent.pak })))
  for (const stream of streams) await stream.frame('snapshot_end')
  const seen: Seen[] = []
  const running = load(
    stacks.map(({ id }) => id),
    seen,
  )
  await waitFor('a load that works', () => seen.length > 60)
  const before = complaints().length
  await server.kill('SIGKILL')
  const startedMs = performance.now()
  await waitFor('refusals', () => seen.filter(({ status }) => status === 503).length > 50)
  for (const stream of streams) await stream.frame('ping', (frame) => frame.stale)
  expect((await fetch(`${broker.url}/readyz`)).status).toBe(503)
  expect((await fetch(`${broker.url}/healthz`)).status).toBe(200)
  await waitFor('the outage is long enough', () => performance.now() - startedMs > size('S33.outageMs'))
  await server.restart()
  const back = seen.length
  await waitFor('everything works again', () => {
    const last = seen.slice(back).slice(-40)
    return last.length === 40 && last.every(({ status }) => status < 300)
  })
  await waitFor('ready again', async () => (await fetch(`${broker.url}/readyz`)).status === 200)
  await running.stop()

  const odd = seen.filter(({ status }) => status >= 300 && status !== 503)
  expect(odd).toEqual([])
  for (const refused of seen.filter(({ status }) => status === 503)) {
    expect(Number(refused.retryAfter)).toBeGreaterThanOrEqual(1)
    expect(['database_unavailable', 'timeout', 'overloaded', 'feed_unavailable']).toContain(refused.code)
  }
  // Every submission that was answered is there, and in the order of its numbers.
  const stored = (await Promise.all(stacks.map(({ id }) => objectIds(id)))).flat()
  const acknowledged = seen.filter(({ status, id }) => status === 201 && id !== null).map(({ id }) => id)
  expect(acknowledged.length).toBeGreaterThan(0)
  expect(acknowledged.filter((id) => !stored.includes(id!))).toEqual([])
  // The same streams, the same process: later changes arrive without a new connection.
  const later = await tenant.client.createDeploymentObject({ params: { id: stacks[0]!.id }, body: { yaml_content: 'a: {b: 2}' } })
  for (const stream of streams) {
    await stream.frame('put', (frame) => frame.object?.id === later.id)
    expect(stream.frames.filter(({ type }) => type === 'bye' || type === 'del')).toEqual([])
    stream.close()
  }
  // Hundreds of calls were refused and dozens of ticks failed; the log says it a handful of times.
  expect(seen.filter(({ status }) => status === 503).length).toBeGreaterThan(50)
  const lines = complaints().slice(before)
  expect(lines.length, JSON.stringify(lines.map((line) => line['msg']))).toBeLessThanOrEqual(6)
  expect(broker.text()).not.toContain('uncaught')
})

test('a planned PostgreSQL restart returns 503 with Retry-After', async () => {
  const { id } = await newStack()
  const seen: Seen[] = []
  const before = complaints().length
  const running = load([id], seen)
  await waitFor('a load that works', () => seen.length > 40)
  await server.restart()
  const back = seen.length
  await waitFor(
    'everything works again',
    () =>
      seen
        .slice(back)
        .slice(-20)
        .filter(({ status }) => status < 300).length === 20,
  )
  await running.stop()
  expect(seen.filter(({ status }) => status >= 300 && status !== 503)).toEqual([])
  expect(seen.filter(({ status, retryAfter }) => status === 503 && !(Number(retryAfter) >= 1))).toEqual([])
  const stored = await objectIds(id)
  expect(seen.filter(({ status, id: made }) => status === 201 && !stored.includes(made!))).toEqual([])
  const lines = complaints().slice(before)
  expect(lines.length, JSON.stringify(lines.map((line) => line['msg']))).toBeLessThanOrEqual(6)
})

async function objectIds(stackId: string): Promise<string[]> {
  const pg = (await import('pg')).default
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  const { rows } = await client.query<{ id: string }>('select id from deployment_objects where stack_id = $1', [stackId])
  await client.end()
  return rows.map(({ id }) => id)
}
