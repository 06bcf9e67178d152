// Connections over real sockets, with a clock that the test moves.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { type ManualClock, manualClock } from '@brokkr/testing/clock.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, onTestFinished, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { SocketConnection } from './socket-connection.ts'

const deadMs = 60_000

async function connect(clock: ManualClock) {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  onTestFinished(() => server.close())
  await once(server, 'listening')
  const client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`)
  onTestFinished(() => client.terminate())
  const [[ws]] = (await Promise.all([once(server, 'connection'), once(client, 'open')])) as [[WebSocket], unknown]
  const dropped: string[] = []
  const connection = new SocketConnection(ws, {
    clock,
    limits: { laneFrames: { control: 64, telemetry: 1024 }, pingMs: 20_000, deadMs },
    buildGap: (lane, { count }) => `gap ${lane} ${count}`,
    onSent: () => undefined,
    onDropped: (lane) => void dropped.push(lane),
    onClosed: () => undefined,
  })
  const hear = async () => {
    const heard = once(ws, 'ping')
    client.ping()
    await heard
  }
  return { ws, client, connection, dropped, hear }
}

test('a client that is not read does not count as silent', async () => {
  const clock = manualClock()
  const { connection, client } = await connect(clock)
  client.pause()
  connection.pause()
  await clock.advance(deadMs * 3)
  expect(connection.tick()).toBeNull()
  connection.resume()
  await clock.advance(deadMs - 1)
  expect(connection.tick()).toBeNull()
  await clock.advance(2)
  expect(connection.tick()).toBe('silent')
})

test('a client that is not read is disconnected if it does not answer a close', async () => {
  const clock = manualClock()
  const { connection, client } = await connect(clock)
  client.pause()
  connection.pause()
  await clock.advance(deadMs * 3)
  connection.close()
  expect(connection.tick()).toBeNull()
  await clock.advance(10_000)
  expect(connection.tick()).toBe('silent')
})

test('a lane drops frames beyond its size and announces them', async () => {
  const { connection, client, dropped } = await connect(manualClock())
  const texts: string[] = []
  client.on('message', (data: Buffer) => texts.push(data.toString().slice(0, 11)))
  client.pause()
  const text = 'x'.repeat(1024 * 1024)
  // The operating system accepts some before frames wait.
  let sent = 0
  for (; dropped.length === 0 && sent < 60; sent++) connection.send('control', 'work_order', text)
  expect(dropped).toEqual(['control'])
  client.resume()
  await waitFor('the announcement', () => texts.includes('gap control'))
  expect(texts).toHaveLength(sent)
})

test('a dropped announcement counts as the lines that it announces', async () => {
  const { connection, client, dropped } = await connect(manualClock())
  const texts: string[] = []
  client.on('message', (data: Buffer) => texts.push(data.toString().slice(0, 20)))
  client.pause()
  for (let sent = 0; dropped.length === 0 && sent < 60; sent++) connection.send('telemetry', 'pod_log_line', 'x'.repeat(1024 * 1024))
  connection.send('telemetry', 'log_gap', 'x'.repeat(1024 * 1024), 41)
  expect(dropped).toEqual(['telemetry', 'telemetry'])
  client.resume()
  await waitFor('the announcement', () => texts.includes('gap telemetry 42'))
})

test('a client stalls only if it reads nothing for the whole limit', async () => {
  const clock = manualClock()
  const { connection, client, ws, hear } = await connect(clock)
  await clock.advance(deadMs * 3)
  await hear()
  client.pause()
  for (let sent = 0; ws.bufferedAmount === 0 && sent < 60; sent++) connection.send('control', 'work_order', 'x'.repeat(4 * 1024 * 1024))
  expect(ws.bufferedAmount).toBeGreaterThan(0)
  expect(connection.tick()).toBeNull()
  await clock.advance(deadMs - 1)
  await hear()
  expect(connection.tick()).toBeNull()
  await clock.advance(2)
  expect(connection.tick()).toBe('stalled')
})
