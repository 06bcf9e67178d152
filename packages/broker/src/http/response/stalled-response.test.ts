// Clients that do not read, on raw connections.
// long: waits for stall limits
import { once } from 'node:events'
import { createServer, get, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { createGenerator, startTestBroker, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { manualClock } from '@brokkr/testing/clock.ts'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { disconnectStalledClient } from './stalled-response.ts'

let broker: TestBroker
let largePath: string
let longestPath: string
beforeAll(async () => {
  broker = await startTestBroker({ env: { BROKKR__LIMITS__ANSWER_STALL_SECONDS: '1' } })
  const { client, generator } = await createGenerator(broker)
  const { id } = await client.createStack({ body: { name: unique('s'), generator_id: generator.id } })
  const submit = async (mebibytes: number) => {
    const documents = Array.from(
      { length: mebibytes },
      (_, n) => `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c${n}}\ndata:\n  v: ${'x'.repeat(1 << 20)}\n`,
    )
    const yaml_content = documents.join('---\n')
    return `/api/v1/deployment-objects/${(await client.createDeploymentObject({ params: { id }, body: { yaml_content } })).id}`
  }
  largePath = await submit(1)
  longestPath = await submit(7)
  return () => broker.kill()
})

/** Asks for more than the buffers of both ends hold, in one write, and reads nothing. */
async function askWithoutReading(path: string, times: number): Promise<Socket> {
  const { hostname, port } = new URL(broker.url)
  const socket = connect(Number(port), hostname)
  onTestFinished(() => void socket.destroy())
  socket.on('error', () => undefined)
  await once(socket, 'connect')
  socket.pause()
  socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${broker.adminPak}\r\n\r\n`.repeat(times))
  return socket
}

/** Resolves when the broker has cut the connection: a paused socket learns it by writing. */
async function whenCut(socket: Socket): Promise<void> {
  const { promise: closed, resolve } = Promise.withResolvers<void>()
  socket.once('close', () => resolve())
  const poke = setInterval(() => socket.write('\r\n'), 50)
  await closed.finally(() => clearInterval(poke))
}

const limitMs = 60_000
test.each([
  ['one answer that is longer than all buffers', () => longestPath, 1],
  ['large answers of the API', () => largePath, 20],
  ['the description of the API', () => '/docs/openapi.json', 100],
])(
  'a client that stops reading %s is cut',
  async (_, pathOf, times) => {
    await whenCut(await askWithoutReading(pathOf(), times))
  },
  limitMs,
)

test(
  'a client that reads slowly is not cut',
  async () => {
    const socket = await askWithoutReading(largePath, 20)
    let bytes = 0
    const { promise: done, resolve } = Promise.withResolvers<void>()
    socket.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > 20 << 20) return resolve()
      socket.pause()
      // 20 MiB in pieces of 64 KiB take several times the limit.
      setTimeout(() => socket.resume(), 12)
    })
    socket.resume()
    const startedMs = performance.now()
    await Promise.race([done, once(socket, 'close')])
    expect([bytes > 20 << 20, performance.now() - startedMs > 2_000]).toEqual([true, true])
  },
  limitMs,
)

test('a response without a client leaves no timer', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const request = get({ port: (server.address() as AddressInfo).port }).on('error', () => undefined)
  const [, response] = (await once(server, 'request')) as [unknown, ServerResponse]
  const closed = once(response, 'close')
  request.destroy()
  await closed
  const clock = manualClock()
  disconnectStalledClient({ clock, stallMs: 1_000 }, response)
  await clock.advance(10_000)
  expect(clock.waiting).toBe(0)
})
