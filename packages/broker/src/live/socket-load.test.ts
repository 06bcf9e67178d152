// Many agents and readers at once: no control frame is lost, and every line is either shown or part of an announced gap.
// long: 20 s of load
import { createAgent, createGenerator, startTestBroker, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { openSocket } from './socket-client.fixture.ts'
import { agentPath } from './socket-world.fixture.ts'

const [agentCount, readerCount] = [50, 10]
const perSecond = 10
const seconds = 20
/** Every tenth message is an event, which must not be lost. */
const isControl = (n: number): boolean => n % 10 === 0

/** A gap with another reason tells of an interruption between broker processes, not of dropped lines. */
const countDropped = (body: Readonly<Record<string, unknown>>): number =>
  body['reason'] === 'buffer_full' ? Number(body['dropped_count']) : 0

let broker: TestBroker
beforeAll(async () => {
  // Small queues fill with little data; a stalled reader is not disconnected while the machine is busy.
  broker = await startTestBroker({ env: { BROKKR__SOCKETS__TELEMETRY_FRAMES: '256', BROKKR__SOCKETS__DEAD_SECONDS: '600' } })
  return () => broker.kill()
})

test('under load no control frame is lost, and each line is shown or announced as dropped', { timeout: 240_000 }, async () => {
  const tenant = await createGenerator(broker)
  const label = unique('l')
  const stack = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id, labels: [label] } })
  const object = await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: 'a: 1' } })
  const agents: Awaited<ReturnType<typeof createAgent>>[] = []
  for (let n = 0; n < agentCount; n++) agents.push(await createAgent(broker, { generators: [tenant], labels: [label] }))
  const readers = await Promise.all(
    Array.from({ length: readerCount }, () => openSocket(broker, `/api/v1/stacks/${stack.id}/live`, { pak: tenant.pak })),
  )
  const sockets = await Promise.all(agents.map(({ pak }) => openSocket(broker, agentPath, { pak })))
  const messages = perSecond * seconds
  const sender = (at: number) => ({ agent_id: agents[at]!.agent.id, stack_id: stack.id })
  for (let n = 0; n < messages; n++) {
    for (const [at, socket] of sockets.entries())
      if (isControl(n))
        socket.send('agent_event', {
          ...sender(at),
          deployment_object_id: object.id,
          event_type: 'DEPLOY',
          status: 'SUCCESS',
          message: `${n}`,
        })
      else
        socket.send('pod_log_line', {
          ...sender(at),
          namespace: 'n',
          pod: 'p',
          container: 'c',
          ts: '2026-01-02T03:04:06Z',
          line: `${at} ${n}`,
        })
    await new Promise((resolve) => setTimeout(resolve, 1000 / perSecond))
  }
  const controls = agentCount * Math.ceil(messages / 10)
  const lines = agentCount * messages - controls
  const total = ({ frames }: (typeof readers)[number]) =>
    frames.reduce((sum, { type, body }) => sum + (type === 'log_gap' ? countDropped(body) : 1), 0)
  await waitFor('every line to be shown or announced', () => readers.every((reader) => total(reader) === lines), {
    limitMs: 120_000,
    onTimeout: () => JSON.stringify(readers.map(total)),
  })
  const countEvents = async () => {
    const lists = await Promise.all(agents.map(({ agent }) => broker.admin.listEvents({ params: { id: agent.id } })))
    return lists.reduce((sum, list) => sum + list.length, 0)
  }
  await waitFor('every event to be stored', async () => (await countEvents()) === controls, {
    limitMs: 60_000,
    onTimeout: async () => String(await countEvents()),
  })
  await Promise.all([...readers, ...sockets].map((socket) => socket.close()))
})

test('a reader that stalls gets a gap instead of the lines it was too slow for', { timeout: 120_000 }, async () => {
  const tenant = await createGenerator(broker)
  const agent = await createAgent(broker, { generators: [tenant] })
  const stack = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id } })
  await tenant.client.addTarget({ params: { id: agent.agent.id }, body: { agent_id: agent.agent.id, stack_id: stack.id } })
  const path = `/api/v1/stacks/${stack.id}/live`
  const [slow, fast] = [await openSocket(broker, path, { pak: tenant.pak }), await openSocket(broker, path, { pak: tenant.pak })]
  slow.ws.pause()
  const rounds = 16
  const batch = (n: number) =>
    Array.from({ length: 120 }, (_, at) => ({
      agent_id: agent.agent.id,
      stack_id: stack.id,
      namespace: 'n',
      pod: 'p',
      container: 'c',
      ts: '2026-01-02T03:04:06Z',
      line: `${n} ${at} ${'x'.repeat(15_000)}`,
    }))
  for (let n = 0; n < rounds; n++) await agent.client.pushTelemetry({ params: { id: agent.agent.id }, body: { pod_log_lines: batch(n) } })
  const total = ({ frames }: typeof slow) => frames.reduce((sum, { type, body }) => sum + (type === 'log_gap' ? countDropped(body) : 1), 0)
  await waitFor('all lines at the other reader', () => total(fast) === rounds * 120, {
    limitMs: 60_000,
    onTimeout: () => String(total(fast)),
  })
  slow.ws.resume()
  await waitFor('lines and gap at the slow reader', () => total(slow) === rounds * 120, {
    limitMs: 60_000,
    onTimeout: () => String(total(slow)),
  })
  const gap = slow.frames.find(({ type, body }) => type === 'log_gap' && body['reason'] === 'buffer_full')
  expect(gap?.body).toMatchObject({ agent_id: '00000000-0000-0000-0000-000000000000', stack_id: stack.id, reason: 'buffer_full' })
  await Promise.all([slow.close(), fast.close()])
})
