// Frames between agents, broker and live readers, against real brokers.
// long: starts more than one broker
import { startTestBroker, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { openSocket } from './socket-client.fixture.ts'
import { agentPath, createSocketWorld, fleetPath } from './socket-world.fixture.ts'

let broker: TestBroker
let second: TestBroker
beforeAll(async () => {
  broker = await startTestBroker()
  second = await broker.sibling()
  await connectBrokers()
  return () => Promise.all([broker.kill(), second.kill()])
})

/** Waits until the second process hears of telemetry that the first one stored. */
async function connectBrokers(): Promise<void> {
  const { tenant, agent, line, livePath } = await createSocketWorld(broker)
  const live = await openSocket(second, livePath, { pak: tenant.pak })
  await waitFor('the processes to hear each other', async () => {
    await agent.client.pushTelemetry({ params: { id: agent.agent.id }, body: { pod_log_lines: [line('probe')] } })
    return live.frames.some(({ type }) => type === 'pod_log_line')
  })
  await live.close()
}

const nil = '00000000-0000-0000-0000-000000000000'
const readMetric = async (from: TestBroker, line: string): Promise<number> => {
  const text = await (await fetch(`${from.url}/metrics`)).text()
  return Number(
    text
      .split('\n')
      .find((entry) => entry.startsWith(line))
      ?.split(' ')
      .at(-1) ?? 0,
  )
}

test.each(['same', 'other'])('changes reach an agent that is connected to the %s process', async (process) => {
  const { tenant, agent, stack } = await createSocketWorld(broker)
  const socket = await openSocket(process === 'same' ? broker : second, agentPath, { pak: agent.pak })
  const extra = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id } })
  const target = await tenant.client.addTarget({
    params: { id: agent.agent.id },
    body: { agent_id: agent.agent.id, stack_id: extra.id },
  })
  const added = await socket.waitForFrame('the new target', ({ type, body }) => type === 'target_changed' && body['stack_id'] === extra.id)
  expect(added.body).toEqual({ id: target.id, agent_id: agent.agent.id, stack_id: extra.id })
  await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: 'a: 2' } })
  const changed = await socket.waitForFrame('the changed stack', ({ type, body }) => type === 'stack_changed' && body['id'] === stack.id)
  expect(changed.body).toMatchObject({ name: stack.name, generator_id: tenant.generator.id, deleted_at: null })
  await tenant.client.removeTarget({ params: { id: agent.agent.id, stack_id: extra.id } })
  await socket.waitForFrame('the request to poll', ({ type, body }) => type === 'target_changed' && body['id'] === nil)
  await socket.close()
})

test('a stack that targets an agent by label is pushed too', async () => {
  const { tenant, agent } = await createSocketWorld(broker)
  const label = unique('l')
  await broker.admin.agentsAddLabel({ params: { id: agent.agent.id }, body: { agent_id: agent.agent.id, label } })
  const labeled = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id, labels: [label] } })
  const socket = await openSocket(broker, agentPath, { pak: agent.pak })
  await tenant.client.createDeploymentObject({ params: { id: labeled.id }, body: { yaml_content: 'a: 1' } })
  await socket.waitForFrame('the stack', ({ type, body }) => type === 'stack_changed' && body['id'] === labeled.id)
  await socket.close()
})

test('a work order is pushed to every matching agent of all processes', async () => {
  const [first, other] = [await createSocketWorld(broker), await createSocketWorld(broker)]
  const label = unique('l')
  for (const { agent } of [first, other])
    await broker.admin.agentsAddLabel({ params: { id: agent.agent.id }, body: { agent_id: agent.agent.id, label } })
  const sockets = [
    await openSocket(broker, agentPath, { pak: first.agent.pak }),
    await openSocket(second, agentPath, { pak: other.agent.pak }),
  ]
  const create = (targeting: object) => broker.admin.createWorkOrder({ body: { work_type: 'custom', yaml_content: 'a: 1', targeting } })
  const byLabel = await create({ labels: [label] })
  for (const socket of sockets) {
    const { body } = await socket.waitForFrame('the order', (frame) => frame.type === 'work_order' && frame.body['id'] === byLabel.id)
    expect(body).toMatchObject({ work_type: 'custom', yaml_content: 'a: 1', status: 'PENDING', claimed_by: null })
  }
  const byId = await create({ agent_ids: [first.agent.agent.id] })
  await sockets[0]?.waitForFrame('the order', (frame) => frame.type === 'work_order' && frame.body['id'] === byId.id)
  // Orders of one batch are pushed in any order. The second of these is in a later batch than the order by id.
  const later: string[] = []
  for (let round = 0; round < 2; round += 1) {
    const { id } = await create({ labels: [label] })
    later.push(id)
    await sockets[1]?.waitForFrame('a later order', (frame) => frame.type === 'work_order' && frame.body['id'] === id)
  }
  const orders = sockets[1]?.frames.filter(({ type }) => type === 'work_order')
  expect(orders?.map(({ body }) => body['id'])).toEqual([byLabel.id, ...later])
  await Promise.all(sockets.map((socket) => socket.close()))
})

test('heartbeats, events and health of an agent are recorded', async () => {
  const { agent, object, event } = await createSocketWorld(broker)
  const socket = await openSocket(broker, agentPath, { pak: agent.pak })
  socket.send('heartbeat', { agent_id: agent.agent.id, sent_at: '2026-01-02T03:04:05Z', k8s_reachable: false, k8s_api_latency_ms: 99 })
  socket.send('agent_event', event('SUCCESS', 'over the socket'))
  const checked_at = '2026-01-02T05:00:00Z'
  const summary = '{"pods_ready":2,"pods_total":2,"conditions":[]}'
  socket.send('agent_health', {
    id: nil,
    agent_id: agent.agent.id,
    deployment_object_id: object.id,
    status: 'healthy',
    summary,
    checked_at,
  })
  await waitFor('the health record', async () => {
    const { health_records } = await broker.admin.getDeploymentHealth({ params: { id: object.id } })
    return health_records.some(({ status, summary: text }) => status === 'healthy' && text === summary)
  })
  const [stored] = await broker.admin.listEvents({ params: { id: agent.agent.id } })
  expect(stored).toMatchObject({ message: 'over the socket', status: 'SUCCESS', deployment_object_id: object.id })
  expect(await broker.admin.getAgent({ params: { id: agent.agent.id } })).toMatchObject({ k8s_reachable: false, k8s_api_latency_ms: 99 })
  await socket.close()
})

test.each(['same', 'other'])('telemetry of an agent reaches live readers of the %s process', async (process) => {
  const { tenant, agent, line, sender, stack, livePath } = await createSocketWorld(broker)
  const live = await openSocket(process === 'same' ? broker : second, livePath, { pak: tenant.pak })
  const socket = await openSocket(broker, agentPath, { pak: agent.pak })
  socket.send('pod_log_line', line('hello'))
  socket.send('k8s_event', {
    ...sender,
    observed_at: '2026-01-02T03:04:05.5Z',
    reason: 'BackOff',
    message: 'm',
    event_type: 'Warning',
    source: null,
    involved_object: { api_version: 'v1', kind: 'Node', namespace: null, name: 'n1', uid: null },
  })
  socket.send('log_gap', { ...sender, since_ts: '2026-01-02T03:04:05Z', dropped_count: 7, reason: 'rate_limit' })
  await Promise.all(['pod_log_line', 'k8s_event', 'log_gap'].map((type) => live.waitForFrame(type, (frame) => frame.type === type)))
  const bodyOf = (type: string) => live.frames.find((frame) => frame.type === type)?.body
  expect(bodyOf('pod_log_line')).toEqual(line('hello', { ts: '2026-01-02T03:04:06.000000Z' }))
  expect(bodyOf('k8s_event')).toMatchObject({ reason: 'BackOff', observed_at: '2026-01-02T03:04:05.500000Z', source: null })
  expect(bodyOf('log_gap')).toMatchObject({ dropped_count: 7, reason: 'rate_limit' })
  // What is pushed over HTTP is shown as well, and everything but the gap is stored.
  await agent.client.pushTelemetry({ params: { id: agent.agent.id }, body: { pod_log_lines: [line('over HTTP')] } })
  await live.waitForFrame('the pushed line', ({ body }) => body['line'] === 'over HTTP')
  const { lines } = await tenant.client.listTelemetryLogs({ params: { id: stack.id } })
  expect(lines.map(({ line: text }) => text)).toEqual(['over HTTP', 'hello'])
  await Promise.all([live.close(), socket.close()])
})

test('frames that an agent must not send are dropped and counted', async () => {
  const [{ tenant, agent, line, livePath, stack }, other] = [await createSocketWorld(broker), await createSocketWorld(broker)]
  const live = await openSocket(broker, livePath, { pak: tenant.pak })
  const socket = await openSocket(broker, agentPath, { pak: agent.pak })
  const reasons = ['foreign_agent', 'not_targeted', 'broker_only', 'unknown_type', 'not_json', 'invalid', 'binary']
  const read = () => Promise.all(reasons.map((reason) => readMetric(broker, `brokkr_ws_dropped_total{reason="${reason}"}`)))
  const before = await read()
  socket.send('pod_log_line', line('foreign agent', { agent_id: other.agent.agent.id }))
  socket.send('pod_log_line', line('foreign stack', { stack_id: other.stack.id }))
  socket.send('stack_changed', { id: stack.id })
  socket.send('no_such_type', {})
  socket.ws.send('this is not JSON')
  socket.send('heartbeat', {})
  socket.ws.send(Buffer.from('binary'))
  socket.send('pod_log_line', line('own'))
  await live.waitForFrame('the own line', ({ body }) => body['line'] === 'own')
  await waitFor('the counts', async () => (await read()).every((count, at) => count === before[at]! + 1))
  expect(live.frames.flatMap(({ type, body }) => (type === 'pod_log_line' ? [body['line']] : []))).toEqual(['own'])
  expect(socket.ws.readyState).toBe(socket.ws.OPEN)
  await Promise.all([live.close(), socket.close()])
})

test.each(['same', 'other'])('a newer socket of an agent evicts its older one in the %s process', async (process) => {
  const { agent } = await createSocketWorld(broker)
  const older = await openSocket(process === 'same' ? broker : second, agentPath, { pak: agent.pak })
  const newer = await openSocket(broker, agentPath, { pak: agent.pak })
  expect(await older.closed).toBe(1005)
  const mine = async () => {
    const { connections } = await second.admin.listWsConnections({})
    return connections.filter(({ agent_id }) => agent_id === agent.agent.id).length
  }
  await waitFor('one connection', async () => (await mine()) === 1)
  expect(newer.ws.readyState).toBe(newer.ws.OPEN)
  await newer.close()
  await waitFor('no connection', async () => (await mine()) === 0)
})

test('the list of connections counts frames and live readers', async () => {
  const { tenant, agent, line, livePath } = await createSocketWorld(broker)
  const live = await openSocket(broker, livePath, { pak: tenant.pak })
  const socket = await openSocket(broker, agentPath, { pak: agent.pak })
  for (const text of ['one', 'two']) socket.send('pod_log_line', line(text))
  await live.waitForFrame('the second line', ({ body }) => body['line'] === 'two')
  const list = await broker.admin.listWsConnections({})
  expect(list.connections.find(({ agent_id }) => agent_id === agent.agent.id)).toMatchObject({
    messages_in: 2,
    messages_out: expect.any(Number) as number,
  })
  expect(list.live_subscribers).toBeGreaterThanOrEqual(1)
  expect(list.connected_agents).toBe(list.connections.length)
  await Promise.all([live.close(), socket.close()])
})

test('the fleet view shows connects, heartbeats and disconnects of every process', async () => {
  const { agent } = await createSocketWorld(broker)
  const fleet = await openSocket(broker, fleetPath, { pak: broker.adminPak })
  const update = (what: string, matches: (body: Readonly<Record<string, unknown>>) => boolean) =>
    fleet.waitForFrame(what, ({ type, body }) => type === 'fleet_update' && body['agent_id'] === agent.agent.id && matches(body))
  const socket = await openSocket(second, agentPath, { pak: agent.pak })
  await update('the connect', (body) => body['ws_connected'] === true)
  socket.send('heartbeat', { agent_id: agent.agent.id, sent_at: '2026-01-02T03:04:05Z', k8s_reachable: true, k8s_api_latency_ms: 12 })
  await update('the heartbeat', (body) => body['k8s_api_latency_ms'] === 12)
  await agent.client.recordHeartbeat({ params: { id: agent.agent.id }, body: { k8s_reachable: true, k8s_api_latency_ms: 13 } })
  await update('the heartbeat over HTTP', (body) => body['k8s_api_latency_ms'] === 13)
  await socket.close()
  await update('the disconnect', (body) => body['ws_connected'] === false && body['k8s_api_latency_ms'] === 13)
  await fleet.close()
})

test('a broker that stops closes its sockets with 1001', async () => {
  const third = await broker.sibling()
  const { tenant, agent, livePath } = await createSocketWorld(broker)
  const sockets = [
    await openSocket(third, agentPath, { pak: agent.pak }),
    await openSocket(third, livePath, { pak: tenant.pak }),
    await openSocket(third, fleetPath, { pak: broker.adminPak }),
  ]
  const stopped = third.stop()
  expect(await Promise.all(sockets.map(({ closed }) => closed))).toEqual([1001, 1001, 1001])
  await stopped
})
