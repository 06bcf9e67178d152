// Handshakes of live sockets, against a real broker.
import { randomUUID } from 'node:crypto'
import { startTestBroker, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import pg from 'pg'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { openSocket, readHandshake } from './socket-client.fixture.ts'
import { agentPath, createSocketWorld, fleetPath, isWaitingForLock } from './socket-world.fixture.ts'

let broker: TestBroker
let own: Awaited<ReturnType<typeof createSocketWorld>>
let other: Awaited<ReturnType<typeof createSocketWorld>>
let paks: Record<string, string>
beforeAll(async () => {
  broker = await startTestBroker({ env: { BROKKR__SERVER__TRUSTED_PROXIES: '127.0.0.1' } })
  own = await createSocketWorld(broker)
  other = await createSocketWorld(broker)
  const reader = await broker.admin.createAdminPak({ body: { name: unique('reader'), readonly: true } })
  const notifier = await broker.admin.createAdminPak({ body: { name: unique('notifier'), scope: ['notify'] } })
  paks = {
    admin: broker.adminPak,
    reader: reader.pak,
    notifier: notifier.pak,
    owner: own.tenant.pak,
    foreignGenerator: other.tenant.pak,
    agent: own.agent.pak,
    unknown: 'brokkr_BRzzzzzz_zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz',
  }
  return () => broker.kill()
})

const callers = ['nobody', 'unknown', 'admin', 'reader', 'notifier', 'owner', 'foreignGenerator', 'agent'] as const
test.each<[string, () => string, readonly number[]]>([
  ['the agent socket', () => agentPath, [401, 401, 403, 403, 403, 403, 403, 101]],
  ['a live tail', () => own.livePath, [401, 401, 101, 101, 403, 101, 403, 403]],
  ['the fleet view', () => fleetPath, [401, 401, 101, 101, 403, 403, 403, 403]],
  ['a live tail of an unknown stack', () => `/api/v1/stacks/${randomUUID()}/live`, [401, 401, 101, 101, 403, 403, 403, 403]],
  ['a live tail of no id', () => '/api/v1/stacks/no/live', [401, 401, 400, 400, 400, 400, 400, 400]],
])('%s is opened by permitted callers alone', async (_, path, expected) => {
  const statuses: number[] = []
  for (const caller of callers) statuses.push((await readHandshake(broker, path(), { pak: paks[caller] })).status)
  expect(statuses).toEqual(expected)
})

test('a browser sends its PAK as a sub-protocol, which is never echoed', async () => {
  const asOwner = `brokkr.pak.${own.tenant.pak}`
  const both = ['brokkr.v1', asOwner]
  expect(await readHandshake(broker, own.livePath, { protocols: both })).toEqual({ status: 101, protocol: 'brokkr.v1' })
  expect((await readHandshake(broker, own.livePath, { protocols: [`brokkr.pak.${paks['unknown']}`] })).status).toBe(401)
  expect((await readHandshake(broker, agentPath, { protocols: ['brokkr.v1', `brokkr.pak.${own.agent.pak}`] })).status).toBe(401)
  // The header wins, whatever the sub-protocol says.
  expect((await readHandshake(broker, own.livePath, { pak: other.tenant.pak, protocols: both })).status).toBe(403)
})

test('a denied handshake is in the audit log, with the address behind a trusted proxy', async () => {
  await readHandshake(broker, fleetPath, { pak: own.tenant.pak, headers: { 'x-forwarded-for': '1.2.3.4, 203.0.113.7' } })
  const entry = await waitFor('the audit entry', async () => {
    const { logs } = await broker.admin.listAuditLogs({ query: { action: 'auth.denied', actor_id: own.tenant.generator.id } })
    return logs.find(({ details, ip_address }) => details?.['endpoint'] === 'fleet_socket' && ip_address === '203.0.113.7')
  })
  expect(entry.details).toMatchObject({ code: 'admin_required', path: fleetPath })
})

test('a request without an upgrade opens no socket', async () => {
  const response = await fetch(`${broker.url}${own.livePath}`, { headers: { authorization: `Bearer ${broker.adminPak}` } })
  expect(response.status).toBe(404)
})

test('a revoked PAK closes its sockets without a code', async () => {
  const world = await createSocketWorld(broker)
  const agent = await openSocket(broker, agentPath, { pak: world.agent.pak })
  const live = await openSocket(broker, world.livePath, { pak: world.tenant.pak })
  await broker.admin.rotateAgentPak({ params: { id: world.agent.agent.id } })
  await broker.admin.rotateGeneratorPak({ params: { id: world.tenant.generator.id } })
  expect(await Promise.all([agent.closed, live.closed])).toEqual([1005, 1005])
})

/** Status of a handshake during which the PAK is revoked. */
async function revokeDuringHandshake(holder: pg.Client): Promise<number> {
  const { agent } = await createSocketWorld(broker)
  await holder.query('begin; lock table agent_sessions in exclusive mode')
  let hasEnded = false
  const handshake = readHandshake(broker, agentPath, { pak: agent.pak }).finally(() => {
    hasEnded = true
  })
  await waitFor('the handshake to wait for its session', async () => hasEnded || (await isWaitingForLock(broker, 'stream_sessions')))
  await broker.admin.rotateAgentPak({ params: { id: agent.agent.id } })
  await waitFor('the revocation', async () => {
    const headers = { authorization: `Bearer ${agent.pak}` }
    return (await fetch(`${broker.url}/api/v1/agents/${agent.agent.id}/target-state`, { headers })).status === 401
  })
  await holder.query('rollback')
  return (await handshake).status
}

test('a PAK that is revoked during the handshake opens no socket', async () => {
  const holder = new pg.Client({ connectionString: broker.databaseUrl })
  await holder.connect()
  onTestFinished(() => holder.end())
  // A handshake that waited longer than the lock timeout ended before the revocation: the next one is tried.
  let status = 504
  for (let attempt = 0; status === 504 && attempt < 20; attempt++) status = await revokeDuringHandshake(holder)
  expect(status).toBe(401)
})
