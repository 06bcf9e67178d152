// Sessions of agent sockets: their order, and their rows, against a real broker.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { openDatabase } from '@brokkr/postgres'
import { startTestBroker, type TestBroker } from '@brokkr/testing/broker.ts'
import { runSql } from '@brokkr/testing/run-sql.ts'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { openSocket } from './socket-client.fixture.ts'
import { agentPath, createSocketWorld } from './socket-world.fixture.ts'
import * as liveStore from './store.ts'

let broker: TestBroker
beforeAll(async () => {
  broker = await startTestBroker()
  return () => broker.kill()
})

const readSessions = (agentId: string) =>
  runSql<{ session: string; connected_since: Date }>(
    broker.databaseUrl,
    `select session, connected_since from agent_sessions where agent_id = $1 and kind = 'ws'`,
    [agentId],
  )

test('a handshake that began before that of the open socket does not replace it', async () => {
  const { agent } = await createSocketWorld(broker)
  await runSql(broker.databaseUrl, `select setval('stream_sessions', 1000)`)
  const newer = await openSocket(broker, agentPath, { pak: agent.pak })
  const rows = await readSessions(agent.agent.id)
  // The next handshake gets a lower number, as if it had begun earlier.
  await runSql(broker.databaseUrl, `select setval('stream_sessions', 500)`)
  const older = await openSocket(broker, agentPath, { pak: agent.pak })
  expect(await older.closed).toBe(1005)
  expect(newer.ws.readyState).toBe(newer.ws.OPEN)
  expect(await readSessions(agent.agent.id)).toEqual(rows)
  await newer.close()
})

test('a refresh writes the rows of open sockets again that were lost', async () => {
  const sql = openDatabase({ url: broker.databaseUrl, schema: 'public', poolSize: 1 })
  onTestFinished(() => sql.close())
  const row = { agent_id: randomUUID(), process: randomUUID() }
  const { session, connected_since } = await liveStore.openSocket(sql, row)
  const rows = await readSessions(row.agent_id)
  await liveStore.closeSocket(sql, { ...row, session })
  const counts = { messages_in: [1], messages_out: [2] }
  const open = { process: row.process, agent_ids: [row.agent_id], sessions: [session], since: [connected_since], ...counts }
  expect(await liveStore.refreshSockets(sql, open)).toEqual([])
  expect(await readSessions(row.agent_id)).toEqual(rows)
})

test.each([{ 'sec-websocket-version': '7' }, { 'sec-websocket-key': 'short' }])(
  'a refused upgrade with %o leaves the open socket and its session',
  async (wrong) => {
    const { agent } = await createSocketWorld(broker)
    const socket = await openSocket(broker, agentPath, { pak: agent.pak })
    const rows = await readSessions(agent.agent.id)
    const headers = {
      authorization: `Bearer ${agent.pak}`,
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
      ...wrong,
    }
    const [response] = (await once(request(`${broker.url}${agentPath}`, { headers }).end(), 'response')) as [IncomingMessage]
    response.resume()
    expect(response.statusCode).toBe(400)
    expect(await readSessions(agent.agent.id)).toEqual(rows)
    expect(socket.ws.readyState).toBe(socket.ws.OPEN)
    await socket.close()
  },
)
