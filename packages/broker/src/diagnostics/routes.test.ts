// Diagnostics over HTTP, against a real broker.
import { randomUUID } from 'node:crypto'
import type { DiagnosticRequest, DiagnosticResult } from '@brokkr/contract/diagnostics/diagnostic.ts'
import { createAgent, createGenerator, startTestBroker, type TestAgent, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { runSql } from '@brokkr/testing/run-sql.ts'
import { readStream } from '@brokkr/testing/stream-reader.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { ask } from '../http/server/http-call.fixture.ts'

let broker: TestBroker
let objectId: string
let agent: TestAgent
beforeAll(async () => {
  broker = await startTestBroker({ env: { BROKKR__BROKER__DIAGNOSTIC_CLEANUP_INTERVAL_SECONDS: '0.2' } })
  const tenant = await createGenerator(broker)
  const stack = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id } })
  objectId = (await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: 'a: 1' } })).id
  agent = await createAgent(broker, { generators: [tenant] })
  return () => broker.kill()
})

const request = (of: TestAgent = agent): Promise<DiagnosticRequest> =>
  broker.admin.createDiagnosticRequest({ params: { id: objectId }, body: { agent_id: of.agent.id } })
const parts = { pod_statuses: '[]', events: '[]', log_tails: '{"web/c":"canary-line"}', collected_at: '2026-01-02T03:04:05Z' }
const submit = (id: string, body: object = parts, pak = agent.pak) => ask(broker, `POST /diagnostics/${id}/result`, { pak, body })
const statusOf = async (id: string): Promise<string> => (await broker.admin.getDiagnostic({ params: { id } })).request.status
const newAgent = (): Promise<TestAgent> => createAgent(broker, { generators: [] })

test('a request wakes its agent, is claimed once, and its result is readable and sealed', async () => {
  const own = await newAgent()
  const stream = await readStream(broker.url, { agentId: own.agent.id, pak: own.pak })
  try {
    await stream.frame('snapshot_end')
    const hints = () => stream.frames.filter((frame) => frame.type === 'look' && frame.what === 'diagnostics').length
    const atStart = hints()
    const { id } = await request(own)
    await waitFor('the hint', () => hints() > atStart)
    const pending = await own.client.getPendingDiagnostics({ params: { id: own.agent.id } })
    expect(pending.map((one) => one.id)).toEqual([id])
    expect((await submit(id, parts, own.pak)).code).toBe('diagnostic_not_claimed')
    expect(await own.client.claimDiagnostic({ params: { id } })).toMatchObject({ status: 'claimed' })
    expect((await ask(broker, `POST /diagnostics/${id}/claim`, { pak: own.pak })).code).toBe('diagnostic_already_claimed')
    const first = await submit(id, parts, own.pak)
    const again = await submit(id, { ...parts, events: '["other"]' }, own.pak)
    expect([first.status, again.status]).toEqual([201, 201])
    expect(again.json).toEqual(first.json)
    const { result } = await broker.admin.getDiagnostic({ params: { id } })
    expect(result).toEqual(first.json as DiagnosticResult)
    expect(result).toMatchObject({ log_tails: parts.log_tails, collected_at: '2026-01-02T03:04:05.000000Z' })
    const search = `select count(*)::int as hits from diagnostic_results where position('canary'::bytea in parts_sealed) > 0`
    expect(await runSql(broker.databaseUrl, search)).toEqual([{ hits: 0 }])
    const actions = await runSql(broker.databaseUrl, 'select action from audit_logs where resource_id = $1 order by id', [id])
    expect(actions).toEqual([{ action: 'diagnostic.requested' }, { action: 'diagnostic.completed' }])
  } finally {
    stream.close()
  }
})

test('another agent neither reads, claims nor answers a request', async () => {
  const { id } = await request()
  const { pak } = await newAgent()
  const answers = [
    await ask(broker, `GET /diagnostics/${id}`, { pak }),
    await ask(broker, `POST /diagnostics/${id}/claim`, { pak }),
    await submit(id, parts, pak),
  ]
  expect(answers.map(({ code }) => code)).toEqual(Array.from({ length: 3 }, () => 'diagnostic_not_owned'))
})

test('a pending request expires, a claimed one fails, and old ones are deleted with their results', async () => {
  const [pending, claimed, done] = [await request(), await request(), await request()]
  for (const { id } of [claimed, done]) await agent.client.claimDiagnostic({ params: { id } })
  await submit(done.id)
  await runSql(broker.databaseUrl, `update diagnostic_requests set expires_at = now() where id = any($1)`, [
    [pending.id, claimed.id, done.id],
  ])
  await waitFor('the requests to end', async () => (await statusOf(pending.id)) === 'expired' && (await statusOf(claimed.id)) === 'failed')
  expect(await statusOf(done.id)).toBe('completed')
  expect((await ask(broker, `POST /diagnostics/${pending.id}/claim`, { pak: agent.pak })).code).toBe('diagnostic_already_claimed')
  expect((await submit(claimed.id)).code).toBe('diagnostic_not_claimed')
  await runSql(broker.databaseUrl, `update diagnostic_requests set completed_at = now() - interval '2 hours' where id = $1`, [done.id])
  await waitFor('its deletion', async () => (await ask(broker, `GET /diagnostics/${done.id}`)).code === 'diagnostic_not_found')
  expect(await runSql(broker.databaseUrl, 'select id from diagnostic_results where request_id = $1', [done.id])).toEqual([])
})

test.each([
  ['no retention', () => ({ agent_id: agent.agent.id, retention_minutes: 0 }), 400, 'invalid_diagnostic_request'],
  ['a long retention', () => ({ agent_id: agent.agent.id, retention_minutes: 1441 }), 400, 'invalid_diagnostic_request'],
  ['a long name', () => ({ agent_id: agent.agent.id, requested_by: 'x'.repeat(256) }), 400, 'invalid_diagnostic_request'],
  ['an unknown agent', () => ({ agent_id: randomUUID() }), 404, 'agent_not_found'],
  ['no agent', () => ({}), 422, 'invalid_request_body'],
])('a request with %s is rejected', async (_, body, status, code) => {
  expect(await ask(broker, `POST /deployment-objects/${objectId}/diagnostics`, { body: body() })).toMatchObject({ status, code })
})

test.each([
  ['statuses that are not JSON', { pod_statuses: 'no' }, 400, 'invalid_diagnostic_result'],
  ['empty events', { events: '' }, 400, 'invalid_diagnostic_result'],
  ['logs that are not JSON', { log_tails: '{' }, 400, 'invalid_diagnostic_result'],
  ['more than a request may hold', { log_tails: JSON.stringify('x'.repeat(2 * 1024 * 1024)) }, 413, 'payload_too_large'],
  ['a wrong time', { collected_at: 'now' }, 422, 'invalid_request_body'],
])('a result with %s is rejected and the request stays claimed', async (_, change, status, code) => {
  const { id } = await request()
  await agent.client.claimDiagnostic({ params: { id } })
  expect(await submit(id, { ...parts, ...change })).toMatchObject({ status, code })
  expect(await statusOf(id)).toBe('claimed')
})
