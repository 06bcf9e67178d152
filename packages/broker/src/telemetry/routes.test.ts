// Telemetry over HTTP, against a real broker.
import type { AgentK8sEvent, AgentPodLog, LogGap, NewK8sEvent, PodLogLine } from '@brokkr/contract/telemetry/telemetry.ts'
import { createAgent, createGenerator, startTestBroker, type TestAgent, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { ask } from '../http/server/http-call.fixture.ts'

let broker: TestBroker
beforeAll(async () => {
  broker = await startTestBroker()
  return () => broker.kill()
})

async function setup() {
  const tenant = await createGenerator(broker)
  const agent = await createAgent(broker, { generators: [tenant] })
  const stack = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id } })
  await tenant.client.addTarget({ params: { id: agent.agent.id }, body: { agent_id: agent.agent.id, stack_id: stack.id } })
  const sender = { agent_id: agent.agent.id, stack_id: stack.id }
  const line = (text: string, more: Partial<PodLogLine> = {}): PodLogLine => ({
    ...sender,
    namespace: 'default',
    pod: 'web-1',
    container: 'web',
    ts: '2026-01-02T03:04:06.123456789Z',
    line: text,
    ...more,
  })
  const event = (reason: string, more: Partial<NewK8sEvent> = {}): NewK8sEvent => ({
    ...sender,
    observed_at: '2026-01-02T03:04:05.5Z',
    reason,
    message: 'Started container',
    event_type: 'Normal',
    involved_object: { api_version: 'v1', kind: 'Pod', namespace: 'default', name: 'web-1', uid: 'u-1' },
    ...more,
  })
  const gap: LogGap = { ...sender, since_ts: '2026-01-02T03:04:05Z', dropped_count: 7, reason: 'rate_limit' }
  type Row = AgentK8sEvent & AgentPodLog
  const list = async (kind: 'events' | 'logs', query = '', pak = tenant.pak) => {
    const response = await ask(broker, `GET /stacks/${stack.id}/${kind}${query}`, { pak })
    const json = response.json as { retention: { oldest_available_ts: string | null }; events?: Row[]; lines?: Row[] }
    return { ...response, retention: json?.retention, rows: json?.events ?? json?.lines ?? [] }
  }
  return { tenant, agent, stack, line, event, gap, list }
}
const push = (agent: TestAgent, body: object) => ask(broker, `POST /agents/${agent.agent.id}/telemetry`, { pak: agent.pak, body })

test('pushed events and log lines are listed newest first with their retention', async () => {
  const { agent, stack, line, event, gap, list } = await setup()
  const answer = await push(agent, { k8s_events: [event('Started')], pod_log_lines: [line('one'), line('two')], log_gaps: [gap] })
  expect([answer.status, answer.json]).toEqual([202, { accepted: 4, refused: 0 }])
  expect((await push(agent, { pod_log_lines: [line('three')] })).json).toEqual({ accepted: 1, refused: 0 })
  const logs = await list('logs')
  expect(logs.rows.map(({ line: text }) => text)).toEqual(['three', 'two', 'one'])
  expect(logs.rows[0]).toMatchObject({ agent_id: agent.agent.id, stack_id: stack.id, ts: '2026-01-02T03:04:06.123456Z', pod: 'web-1' })
  expect(logs.retention).toMatchObject({ effective_retention_seconds: 21_600, oldest_available_ts: logs.rows.at(-1)?.created_at })
  const events = await list('events')
  expect(events.rows).toMatchObject([{ reason: 'Started', message: 'Started container', observed_at: '2026-01-02T03:04:05.500000Z' }])
  expect(events.rows[0]?.source).toBeNull()
})

test('items of another agent or of a stack that is no target are refused one by one', async () => {
  const [{ agent, line, gap, list }, other] = [await setup(), await setup()]
  const foreign = [line('agent', { agent_id: other.agent.agent.id }), line('stack', { stack_id: other.stack.id })]
  const answer = await push(agent, { pod_log_lines: [...foreign, line('own')], log_gaps: [{ ...gap, stack_id: other.stack.id }] })
  expect([answer.status, answer.json]).toEqual([202, { accepted: 1, refused: 3 }])
  expect((await list('logs')).rows.map(({ line: text }) => text)).toEqual(['own'])
  expect((await other.list('logs')).rows).toEqual([])
})

test('a list is bounded by limit, since and cursor', async () => {
  const { agent, line, list } = await setup()
  const texts = Array.from({ length: 5 }, (_, n) => `line ${n}`)
  await push(agent, { pod_log_lines: texts.map((text) => line(text)) })
  for (const [query, length] of [
    ['?limit=0', 1],
    ['?limit=-5', 1],
    ['?limit=2', 2],
    ['?limit=100000', 5],
    ['?since=2026-01-01T00:00:00Z', 5],
    ['?since=2999-01-01T00:00:00Z', 0],
  ] as const)
    expect([query, (await list('logs', query)).rows.length]).toEqual([query, length])
  const seen: string[] = []
  for (let query = '?limit=2'; ; ) {
    const page = await list('logs', query)
    seen.push(...page.rows.map(({ line: text }) => text))
    const next = page.header('x-next-cursor')
    if (next === null) break
    query = `?limit=2&cursor=${next}`
  }
  expect(seen).toEqual(texts.toReversed())
  for (const query of ['?limit=x', '?since=yesterday'])
    expect([query, (await list('logs', query)).code]).toEqual([query, 'invalid_query_parameter'])
  expect((await list('logs', '?cursor=nonsense')).code).toBe('invalid_cursor')
})

test('a page of long lines ends at eight MiB and names the next page', async () => {
  const { agent, line, list } = await setup()
  const long = 'x'.repeat(20_000)
  for (let n = 0; n < 6; n++) expect((await push(agent, { pod_log_lines: Array.from({ length: 100 }, () => line(long)) })).status).toBe(202)
  const first = await list('logs', '?limit=5000')
  expect(first.rows.length).toBeLessThan(600)
  expect(first.rows.every(({ line: text }) => Buffer.byteLength(text) === 16 * 1024)).toBe(true)
  const rest = await list('logs', `?limit=5000&cursor=${first.header('x-next-cursor')}`)
  expect(first.rows.length + rest.rows.length).toBe(600)
})

test.each<[string, (own: Awaited<ReturnType<typeof setup>>) => object, string]>([
  [
    'more than 1,000 items in all',
    ({ line, event }) => ({
      k8s_events: Array.from({ length: 501 }, () => event('r')),
      pod_log_lines: Array.from({ length: 500 }, () => line('l')),
    }),
    'validation_failed',
  ],
  [
    'more than 1,000 items of a kind',
    ({ line }) => ({ pod_log_lines: Array.from({ length: 1001 }, () => line('l')) }),
    'validation_failed',
  ],
  ['a line without its pod', ({ line }) => ({ pod_log_lines: [{ ...line('l'), pod: undefined }] }), 'invalid_request_body'],
  ['an unknown reason of a gap', ({ gap }) => ({ log_gaps: [{ ...gap, reason: 'other' }] }), 'invalid_request_body'],
  ['a negative number of dropped lines', ({ gap }) => ({ log_gaps: [{ ...gap, dropped_count: -1 }] }), 'validation_failed'],
])('a push with %s is refused whole', async (_, bodyOf, code) => {
  const own = await setup()
  const answer = await push(own.agent, bodyOf(own))
  expect([answer.status, answer.code]).toEqual([422, code])
  expect((await own.list('logs')).rows).toEqual([])
})

test('texts of telemetry are sealed in the database', async () => {
  const { agent, line, event, list } = await setup()
  await push(agent, { pod_log_lines: [line('canary-line')], k8s_events: [event('r', { message: 'canary-message' })] })
  expect((await list('logs')).rows[0]?.line).toBe('canary-line')
  const client = new pg.Client({ connectionString: broker.databaseUrl })
  await client.connect()
  const { rows } = await client.query<{ text: string }>(
    `select string_agg(t::text || encode(line_sealed, 'escape'), '') as text from agent_pod_logs t
     union all select string_agg(t::text || encode(message_sealed, 'escape'), '') from agent_k8s_events t`,
  )
  await client.end()
  expect(rows.map(({ text }) => /web-1/.test(text))).toEqual([true, true])
  expect(rows.map(({ text }) => /canary/.test(text))).toEqual([false, false])
})
