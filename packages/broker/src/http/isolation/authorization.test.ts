// Every operation of a real broker as everybody the table excludes: refused, told to the audit, and without effect; and nothing
// that is partly permitted is partly done.
// long: every operation as every caller
import { type EndpointName, endpoints } from '@brokkr/contract/endpoints.ts'
import { errorStatus } from '@brokkr/contract/errors.ts'
import { startTestBroker, type TestBroker } from '@brokkr/testing/broker.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { type CallerName, callers, permissions } from '../../auth/permissions.fixture.ts'
import { ask } from '../server/http-call.fixture.ts'
import { tenantCall } from './generator-calls.fixture.ts'
import { makeTenant, quietBroker, rowsOfAll, type Tenant } from './two-generators.fixture.ts'

let broker: TestBroker
let mine: Tenant
let theirs: Tenant
let paks: Record<CallerName, string>
beforeAll(async () => {
  broker = await startTestBroker({ env: quietBroker })
  mine = await makeTenant(broker)
  theirs = await makeTenant(broker)
  const reader = (await broker.admin.createAdminPak({ body: { name: 'reader', readonly: true } })).pak
  const [owner, foreignGenerator] = [mine.generatorPak, theirs.generatorPak]
  paks = { admin: broker.adminPak, reader, owner, foreignGenerator, itself: mine.agentPak, foreignAgent: theirs.agentPak }
  return () => broker.kill()
}, 120_000)

const names = Object.keys(endpoints) as EndpointName[]
const excluded = names.flatMap((name) =>
  callers.flatMap((caller, n) => {
    const code = permissions[name][n] ?? 'ok'
    return code === 'ok' ? [] : [{ name, caller, code }]
  }),
)
const denials = async (): Promise<number> => (await broker.admin.listAuditLogs({ query: { action: 'auth.denied', limit: 1 } })).total

test('[X9] an operation is refused and audited for each role that the table excludes', { timeout: 240_000 }, async () => {
  const [rows, audited] = [await rowsOfAll(broker.databaseUrl), await denials()]
  let expected = audited
  for (const { name, caller, code } of excluded) {
    const { call, body } = tenantCall(name, mine)
    const answer = await ask(broker, call, { pak: paks[caller], ...(body === undefined ? {} : { body }) })
    const isNobody = code === 'unauthorized'
    expect([name, caller, answer.status, answer.code]).toEqual([name, caller, errorStatus[code], isNobody ? null : code])
    // Nothing but the code and its sentence; 401 says not even that.
    if (isNobody) expect(answer.text).toBe('')
    else expect(Object.keys(answer.json as object).filter((key) => key !== 'details')).toEqual(['code', 'message'])
    for (const foreign of [mine.agentName, mine.label]) expect(answer.text).not.toContain(foreign)
    if (answer.status === 403) expected += 1
  }
  expect(excluded.length).toBeGreaterThan(300)
  await waitFor('every denial to be in the audit', async () => (await denials()) >= expected, {
    onTimeout: async () => `${await denials()} of ${expected}`,
  })
  expect(await denials()).toBe(expected)
  expect(await rowsOfAll(broker.databaseUrl)).toEqual(rows)
})

test('[X9] a denial is audited with caller, endpoint and rule', async () => {
  await ask(broker, `DELETE /stacks/${mine.stackId}`, { pak: theirs.generatorPak, headers: { 'user-agent': 'probe/9' } })
  const row = await waitFor('the row', async () =>
    (await broker.admin.listAuditLogs({ query: { action: 'auth.denied' } })).logs.find((log) => log.user_agent === 'probe/9'),
  )
  expect(row).toMatchObject({
    actor_type: 'generator',
    actor_id: theirs.generatorId,
    details: { code: 'stack_not_owned', endpoint: 'deleteStack', path: `/api/v1/stacks/${mine.stackId}` },
  })
})

test('[X9] of a batch of ten health records with one foreign none is stored', async () => {
  const rows = await rowsOfAll(broker.databaseUrl)
  const checked_at = new Date().toISOString()
  const records = Array.from({ length: 10 }, (_, n) => ({ id: n === 7 ? theirs.objectId : mine.objectId, status: 'failing', checked_at }))
  const answer = await ask(broker, `PATCH /agents/${mine.agentId}/health-status`, {
    pak: mine.agentPak,
    body: { deployment_objects: records },
  })
  expect([answer.status, answer.code]).toEqual([403, 'agent_not_associated'])
  expect(await rowsOfAll(broker.databaseUrl)).toEqual(rows)
})

test('[X9] a foreign event in a batch is rejected without affecting the others', async () => {
  const events = Array.from({ length: 10 }, (_, n) => ({
    id: crypto.randomUUID(),
    agent_id: mine.agentId,
    deployment_object_id: n === 7 ? theirs.objectId : mine.objectId,
    event_type: 'DEPLOY',
    status: 'SUCCESS',
  }))
  const before = (await broker.admin.listEvents({ params: { id: theirs.agentId } })).length
  const answer = await ask(broker, `POST /agents/${mine.agentId}/events/batch`, { pak: mine.agentPak, body: { events } })
  const { results } = answer.json as { results: { status: string; code?: string }[] }
  expect(results.map(({ status, code }, n) => (n === 7 ? [status, code] : [status]))).toEqual(
    events.map((_, n) => (n === 7 ? ['refused', 'agent_not_associated'] : ['stored'])),
  )
  expect((await broker.admin.listAgentEvents({ query: { stack_id: theirs.stackId } })).length).toBe(before)
})
