// Control frames while the database cannot store them, against a real broker.
// long: starts more than one broker
import { startTestBroker, type TestBroker } from '@brokkr/testing/broker.ts'
import { logLine } from '@brokkr/testing/program.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import pg from 'pg'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { openSocket } from './socket-client.fixture.ts'
import { agentPath, createSocketWorld, isWaitingForLock } from './socket-world.fixture.ts'

let broker: TestBroker
beforeAll(async () => {
  broker = await startTestBroker()
  return () => broker.kill()
})

/** Statements that write events wait until the returned client rolls back, and fail with the lock timeout. */
async function blockEvents(): Promise<pg.Client> {
  const holder = new pg.Client({ connectionString: broker.databaseUrl })
  await holder.connect()
  onTestFinished(() => holder.end())
  await holder.query('begin; lock table agent_events in exclusive mode')
  return holder
}
const listMessages = async (id: string) => (await broker.admin.listEvents({ params: { id } })).map(({ message }) => message)

test('events that the database refuses for a time are stored once and in order', async () => {
  const { agent, event } = await createSocketWorld(broker)
  const socket = await openSocket(broker, agentPath, { pak: agent.pak })
  const holder = await blockEvents()
  for (const message of ['1', '2', '3']) socket.send('agent_event', event('SUCCESS', message))
  await logLine(broker, 'frame of an agent not stored yet, will retry')
  await holder.query('rollback')
  await waitFor('the last event', async () => (await listMessages(agent.agent.id)).includes('3'))
  expect(await listMessages(agent.agent.id)).toEqual(['3', '2', '1'])
  await socket.close()
})

test('a broker that stops stores the events that wait', async () => {
  const second = await broker.sibling()
  onTestFinished(() => second.kill())
  const { agent, event } = await createSocketWorld(broker)
  const socket = await openSocket(second, agentPath, { pak: agent.pak })
  const holder = await blockEvents()
  for (const message of ['1', '2', '3']) socket.send('agent_event', event('SUCCESS', message))
  await waitFor('the first event to wait', () => isWaitingForLock(broker, 'agent_events'))
  const stopped = second.stop()
  expect(await socket.closed).toBe(1001)
  await holder.query('rollback')
  await stopped
  expect(await listMessages(agent.agent.id)).toEqual(['3', '2', '1'])
})
