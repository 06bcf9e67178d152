// Work orders that are pushed to agents, against a real broker.
import { startTestBroker, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { beforeAll, expect, test } from 'vitest'
import { openSocket } from './socket-client.fixture.ts'
import { agentPath, createSocketWorld } from './socket-world.fixture.ts'

let broker: TestBroker
beforeAll(async () => {
  broker = await startTestBroker()
  return () => broker.kill()
})

const nil = '00000000-0000-0000-0000-000000000000'
const create = (targeting: object, text: string) =>
  broker.admin.createWorkOrder({ body: { work_type: 'custom', yaml_content: `a: ${text}`, targeting } })

test('an order above 64 KiB is announced to its agents as a change to poll', async () => {
  const { agent } = await createSocketWorld(broker)
  const socket = await openSocket(broker, agentPath, { pak: agent.pak })
  const targeting = { agent_ids: [agent.agent.id] }
  const large = await create(targeting, 'x'.repeat(70_000))
  await socket.waitForFrame('the request to poll', ({ type, body }) => type === 'target_changed' && body['id'] === nil)
  const small = await create(targeting, 'x'.repeat(60_000))
  await socket.waitForFrame('the small order', ({ type, body }) => type === 'work_order' && body['id'] === small.id)
  expect(socket.frames.filter(({ body }) => body['id'] === large.id)).toEqual([])
  await socket.close()
})

test('orders that are created at the same time all reach their agents', async () => {
  const worlds = [await createSocketWorld(broker), await createSocketWorld(broker)]
  const label = unique('l')
  for (const { agent } of worlds)
    await broker.admin.agentsAddLabel({ params: { id: agent.agent.id }, body: { agent_id: agent.agent.id, label } })
  const sockets = await Promise.all(worlds.map(({ agent }) => openSocket(broker, agentPath, { pak: agent.pak })))
  const orders = await Promise.all(Array.from({ length: 60 }, (_, at) => create({ labels: [label] }, `${at}`)))
  for (const socket of sockets)
    for (const { id } of orders) await socket.waitForFrame('the order', ({ type, body }) => type === 'work_order' && body['id'] === id)
  await Promise.all(sockets.map((socket) => socket.close()))
})
