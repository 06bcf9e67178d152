import { createServer, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { createCallConnections } from './call-connections.ts'
import { headerLines } from './call-text.ts'
import { createExchanges } from './exchange.ts'

const ok = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'

/** A server that tells its connections apart and answers as it is told, and calls to it. */
async function setup(answer: (socket: Socket, text: string, connection: number) => void) {
  const seen: { connection: number; text: string }[] = []
  const sockets: Socket[] = []
  const server = createServer((socket) => {
    const connection = sockets.push(socket)
    socket.on('error', () => undefined)
    socket.on('data', (bytes) => {
      seen.push({ connection, text: bytes.toString() })
      answer(socket, bytes.toString(), connection)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  const connections = createCallConnections(`http://127.0.0.1:${port}`, {})
  const ending = new AbortController()
  const exchanges = createExchanges(ending.signal)
  onTestFinished(() => {
    connections.destroy(new Error('over'))
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const call = (path: string, more: { body?: string | Uint8Array; guard?: () => void; signal?: AbortSignal; timeoutMs?: number } = {}) =>
    exchanges.send(
      connections,
      { head: `GET ${path} HTTP/1.1\r\nhost: x\r\n`, body: more.body, guard: more.guard },
      {
        timeoutMs: more.timeoutMs ?? 20_000,
        bytesMax: 1000,
        timedOut: () => new Error('timed out'),
        tooLarge: () => new Error('too large'),
        badPacking: (cause) => cause,
        signal: more.signal,
      },
    )
  return { call, seen, sockets, connections, ending }
}

test('calls one after the other share a connection, those at one time have one each, and all of it is kept for later', async () => {
  const { call, seen } = await setup((socket) => socket.write(ok))
  for (const path of ['/a', '/b']) expect(await call(path)).toMatchObject({ status: 200, text: 'ok' })
  await Promise.all([call('/c'), call('/d')])
  await Promise.all([call('/e'), call('/f')])
  expect(Map.groupBy(seen, ({ connection }) => connection).get(1)).toHaveLength(4)
  expect(seen).toHaveLength(6)
})

test('a body travels as it is, as text and as bytes, with its length in bytes', async () => {
  const { call, seen } = await setup((socket) => socket.write(ok))
  await call('/a', { body: '{"ü":1}' })
  await call('/b', { body: new Uint8Array([65, 66]) })
  expect(seen.map(({ text }) => text).join('')).toBe(
    'GET /a HTTP/1.1\r\nhost: x\r\ncontent-length: 8\r\n\r\n{"ü":1}GET /b HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nAB',
  )
})

test('a connection that the server has closed, or on which it said something unasked, is not used again', async () => {
  const { call, sockets } = await setup((socket, text) => socket.write(text.startsWith('GET /more') ? `${ok}HTTP/1.1 400 Bad\r\n\r\n` : ok))
  await call('/a')
  const gone = new Promise((resolve) => sockets[0]?.once('close', resolve))
  sockets[0]?.end()
  await gone
  expect((await call('/b')).text).toBe('ok')
  expect((await call('/more')).text).toBe('ok')
  expect((await call('/c')).text).toBe('ok')
  expect(sockets).toHaveLength(3)
})

test('an answer that is cut, that is none, that is too large or does not come is an error, and takes its connection with it', async () => {
  const { call, sockets } = await setup((socket, text) => {
    if (text.startsWith('GET /cut')) socket.end('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nsh')
    if (text.startsWith('GET /none')) socket.write('SSH-2.0\r\n\r\n')
    if (text.startsWith('GET /large')) socket.write(`HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n${'x'.repeat(1001)}`)
    if (text.startsWith('GET /ok')) socket.write(ok)
  })
  await expect(call('/cut')).rejects.toMatchObject({ code: 'ECONNRESET' })
  await expect(call('/none')).rejects.toMatchObject({ code: 'EBADANSWER' })
  await expect(call('/large')).rejects.toThrow('too large')
  await expect(call('/silent', { timeoutMs: 50 })).rejects.toThrow('timed out')
  const stop = new AbortController()
  const stopped = call('/stopped', { signal: stop.signal })
  stop.abort(new Error('no longer wanted'))
  await expect(stopped).rejects.toThrow('no longer wanted')
  expect((await call('/ok')).text).toBe('ok')
  expect(sockets.length).toBeGreaterThanOrEqual(5)
})

test('whoever may not write any more when the connection stands sends nothing, and the connection is there for the next', async () => {
  const { call, seen, sockets } = await setup((socket) => socket.write(ok))
  const refuse = () => {
    throw new Error('the Lease is not ours')
  }
  await expect(call('/refused', { guard: refuse })).rejects.toThrow('the Lease is not ours')
  expect((await call('/next')).text).toBe('ok')
  expect([seen.map(({ text }) => text.split(' ')[1]), sockets.length]).toEqual([['/next'], 1])
})

test('what is under way ends with the client, and goes on to its end when connections are only left', async () => {
  const waiting: Socket[] = []
  const { call, connections, ending } = await setup((socket) => void waiting.push(socket))
  const calls = [call('/a'), call('/b')]
  await expect.poll(() => waiting.length).toBe(2)
  connections.close()
  waiting[0]?.write(ok)
  expect((await Promise.race(calls)).text).toBe('ok')
  ending.abort(new Error('closed'))
  expect((await Promise.allSettled(calls)).map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
})

test.each([
  [{ 'Impersonate-User': 'a\r\nAuthorization: Bearer x' }],
  [{ authorization: 'Bearer secret\n' }],
  [{ 'a b': 'c' }],
  [{ 'a:': 'c' }],
  [{ a: 'ж' }],
])('a header with a line break or what no header may hold is refused, and its value is not told', (headers) => {
  expect(() => headerLines(headers as Record<string, string>)).toThrow(/holds what no header may hold/)
  expect(() => headerLines(headers as Record<string, string>)).not.toThrow(/secret/)
})
