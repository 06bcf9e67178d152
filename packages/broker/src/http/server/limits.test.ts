// Bounds on heads, bodies and time, tried with raw sockets: what is refused is refused before it is read, and the server
// goes on answering others.
// long: waits out slow clients
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterEach, expect, test } from 'vitest'
import { askRaw, openRaw, statusLines } from './raw-http.fixture.ts'
import { ids, paks, startTestServer, type TestOptions, type TestServer } from './server.fixture.ts'

let server: TestServer
const start = async (options: TestOptions = {}) => (server = await startTestServer(options))
afterEach(async () => {
  await waitFor('the server to answer others', () => isServed(server))
  await server.close()
})
const head = (lines: string[], method = 'POST /api/v1/agents') =>
  `${method} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${paks.admin}\r\n${lines.map((line) => `${line}\r\n`).join('')}\r\n`

test.each([
  ['two lengths', ['Content-Length: 2', 'Content-Length: 3'], '{}'],
  ['a length and chunks', ['Content-Length: 5', 'Transfer-Encoding: chunked'], '0\r\n\r\n'],
  ['chunks and a length', ['Transfer-Encoding: chunked', 'Content-Length: 5'], '0\r\n\r\n'],
  ['a length that is no number', ['Content-Length: 0x2'], '{}'],
  ['an unknown framing', ['Transfer-Encoding: chunked, identity'], '0\r\n\r\n'],
  ['a header broken over two lines', ['X-A: b', ' c: d'], ''],
  ['a bare NUL', ['X-A: \0'], ''],
])('%s: 400, closed, not served', async (_, lines, body) => {
  await start()
  const text = await askRaw(server.http.port, head(lines) + body)
  expect([statusLines(text), server.reached]).toEqual([['HTTP/1.1 400'], []])
})

test('a body whose Content-Length exceeds the limit is refused before it is sent', async () => {
  await start({ limits: { bodyBytes: 1000 } })
  const connection = await openRaw(server.http.port)
  connection.send(head(['Content-Type: application/json', 'Content-Length: 1001']))
  expect(await connection.until(/payload_too_large/)).toMatch(/^HTTP\/1\.1 413 [^]*connection: close/i)
  await connection.closed
})

test('a chunked body is refused at the limit', async () => {
  await start({ limits: { bodyBytes: 1000 } })
  const connection = await openRaw(server.http.port)
  connection.send(`${head(['Content-Type: application/json', 'Transfer-Encoding: chunked'])}3e9\r\n"${'x'.repeat(1000)}`)
  expect(await connection.until(/payload_too_large/)).toMatch(/^HTTP\/1\.1 413/)
  await connection.closed
})

test('a client that continues to send after a refusal receives it', async () => {
  await start({ limits: { bodyBytes: 1000 } })
  const body = Buffer.alloc(3 * 1024 * 1024, 0x20)
  const response = await fetch(`${server.url}/api/v1/agents`, {
    method: 'POST',
    body,
    headers: { authorization: paks.admin, 'content-type': 'application/json' },
  })
  expect(response.status).toBe(413)
})

test('a refusal does not wait for an unread body', async () => {
  await start()
  const connection = await openRaw(server.http.port)
  connection.send(`POST /api/v1/agents HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n`)
  expect(await connection.until(/\r\n\r\n/)).toMatch(/^HTTP\/1\.1 401 [^]*connection: close/i)
  await connection.closed
})

test('a head that trickles in is cut', async () => {
  await start({ limits: { headerMs: 300 } })
  const connection = await openRaw(server.http.port)
  const trickle = setInterval(() => connection.send('X'), 50)
  try {
    connection.send('GET /api/v1/agents HTTP/1.1\r\nHost: x\r\nX-Slow: ')
    await connection.closed
    expect(statusLines(connection.received())).toEqual(['HTTP/1.1 408'])
  } finally {
    clearInterval(trickle)
  }
})

test('a body that trickles in is cut', async () => {
  await start({ limits: { bodyMs: 300 } })
  const connection = await openRaw(server.http.port)
  const trickle = setInterval(() => connection.send('1\r\n \r\n'), 50)
  try {
    connection.send(head(['Content-Type: application/json', 'Transfer-Encoding: chunked']))
    await connection.closed
    expect(connection.received()).toMatch(/^HTTP\/1\.1 503 [^]*"code":"timeout"/)
    expect(server.reached).toEqual([])
  } finally {
    clearInterval(trickle)
  }
})

test('a client that disconnects during its body leaves no log line', async () => {
  await start()
  const connection = await openRaw(server.http.port)
  connection.send(`${head(['Content-Type: application/json', 'Content-Encoding: gzip', 'Content-Length: 100'])}\x1f\x8b`)
  connection.socket.end()
  await connection.closed
  expect([server.reached, server.log]).toEqual([[], []])
})

test('path and query are 4 KiB at most, 16 KiB for streams', async () => {
  await start()
  const status = async (path: string) => statusLines(await askRaw(server.http.port, head(['Connection: close'], `GET ${path}`)))[0]
  const padded = (path: string, length: number) => path + 'x'.repeat(length - path.length)
  expect(await status(padded('/api/v1/agents?name=', 4096))).toBe('HTTP/1.1 200')
  expect(await status(padded('/api/v1/agents?name=', 4097))).toBe('HTTP/1.1 414')
  expect(await status(padded('/nowhere?', 4097))).toBe('HTTP/1.1 414')
  expect(await status(padded(`/api/v1/agents/${ids.itself}/stream?cursor=`, 16_384))).toBe('HTTP/1.1 403')
  expect(await status(padded(`/api/v1/agents/${ids.itself}/stream?cursor=`, 16_385))).toBe('HTTP/1.1 414')
  expect(await status(padded('/api/v1/watch?scope=kind:stack&x=', 16_384))).toBe('HTTP/1.1 200')
})

test('a head of more than 32 KiB or 100 headers is refused', async () => {
  await start()
  const many = (count: number) => [...Array.from({ length: count - 3 }, (_, n) => `X-${n}: y`), 'Connection: close']
  const status = async (lines: string[]) => statusLines(await askRaw(server.http.port, head(lines, 'GET /api/v1/agents')))[0]
  expect(await status(many(100))).toBe('HTTP/1.1 200')
  expect(await status(many(101))).toBe('HTTP/1.1 413')
  expect(await status([`X-Long: ${'x'.repeat(33_000)}`])).toBe('HTTP/1.1 431')
})

test('a connection beyond connectionsMax is closed', async () => {
  await start({ limits: { connectionsMax: 2 } })
  const [first, second] = [await openRaw(server.http.port), await openRaw(server.http.port)]
  const third = await openRaw(server.http.port)
  await third.closed
  expect([third.received(), first.socket.destroyed, second.socket.destroyed]).toEqual(['', false, false])
  first.socket.destroy()
  second.socket.destroy()
  await Promise.all([first.closed, second.closed])
})

test('unauthenticated connections are limited per address', async () => {
  await start({ limits: { unknownPerAddressMax: 3, headerMs: 60_000 } })
  const known = await openRaw(server.http.port)
  known.send(head([], 'GET /api/v1/agents'))
  await known.until(/HTTP\/1\.1 200/)
  const refused = await openRaw(server.http.port)
  refused.send('GET /api/v1/agents HTTP/1.1\r\nHost: x\r\n\r\n')
  await refused.until(/HTTP\/1\.1 401/)
  const [second, third] = [await openRaw(server.http.port), await openRaw(server.http.port)]
  const fourth = await openRaw(server.http.port)
  await fourth.closed
  expect([fourth.received(), known, refused, second, third].map((one) => (typeof one === 'string' ? one : one.socket.destroyed))).toEqual([
    '',
    false,
    false,
    false,
    false,
  ])
  expect(await server.metrics.text()).toContain('brokkr_http_connections_dropped_total 1')
  // Another address has its own share, and a place that is given back is free again.
  const elsewhere = await openRaw(server.http.port, '127.0.0.2')
  elsewhere.send('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n')
  await elsewhere.until(/OK$/)
  second.socket.destroy()
  await waitFor('room for another', () => isServed(server))
  for (const one of [known, refused, third, elsewhere]) one.socket.destroy()
})

test('connections of a trusted proxy are not limited per address', async () => {
  await start({ limits: { unknownPerAddressMax: 1, headerMs: 60_000 }, trustedProxies: ['127.0.0.0/8'] })
  const connections = [await openRaw(server.http.port), await openRaw(server.http.port), await openRaw(server.http.port)]
  for (const one of connections) {
    one.send('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n')
    await one.until(/OK$/)
  }
  for (const one of connections) one.socket.destroy()
})

const isServed = (at: TestServer): Promise<boolean> =>
  fetch(`${at.url}/healthz`).then(
    ({ status }) => status === 200,
    () => false,
  )

test('a connection without a request is closed', async () => {
  await start({ limits: { headerMs: 300 } })
  const connection = await openRaw(server.http.port)
  await connection.closed
  expect(statusLines(connection.received())).toEqual(['HTTP/1.1 408'])
})

test('an idle keep-alive connection is closed after its timeout', async () => {
  await start({ limits: { keepAliveMs: 100 } })
  const connection = await openRaw(server.http.port)
  connection.send('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n')
  await connection.until(/OK$/)
  await connection.closed
  expect(statusLines(connection.received())).toEqual(['HTTP/1.1 200'])
})
