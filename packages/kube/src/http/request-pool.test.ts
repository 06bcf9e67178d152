import { createServer, type Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, onTestFinished, test } from 'vitest'
import { KubeError } from '../client/kube-error.ts'
import { createRequestPool } from './request-pool.ts'
import { type ResponseLimits, ResponseReader } from './response-reader.ts'
import { toRequestError } from './transport.ts'

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'
const lines = (...all: string[]) => all.join('\r\n')

/** A raw TCP server that records requests by connection and answers by `answer`, and a function that sends requests to it. */
async function setup(answer: (socket: Socket, text: string) => void, { bytesMax = 1000 } = {}) {
  const requests: { connection: number; text: string }[] = []
  const sockets: Socket[] = []
  const server = createServer({ noDelay: true }, (socket) => {
    const connection = sockets.push(socket)
    socket.on('error', () => undefined)
    socket.on('data', (bytes) => {
      requests.push({ connection, text: bytes.toString() })
      answer(socket, bytes.toString())
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  const pool = createRequestPool(`http://127.0.0.1:${port}`, {})
  const inFlight = new Set<ResponseReader>()
  onTestFinished(() => {
    pool.destroy(new Error('test finished'))
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const send = async (path: string, more: Partial<ResponseLimits> & { body?: string | Uint8Array; headers?: object } = {}) => {
    const { body, headers = {}, ...limits } = more
    const reader = new ResponseReader(
      { what: `PUT ${path}`, timeoutMs: 20_000, bytesMax, signal: undefined, guard: undefined, ...limits },
      inFlight,
    )
    pool.dispatch({ method: 'PUT', path, headers: headers as Record<string, string>, body }, reader)
    try {
      return await reader.response
    } catch (error) {
      throw toRequestError(`PUT ${path}`, error, [limits.signal])
    }
  }
  return { send, requests, sockets, pool, inFlight }
}
const reasonOf = (request: Promise<unknown>): Promise<unknown> =>
  request.then(
    (response) => response,
    (error: unknown) => (error instanceof KubeError ? error.reason : error),
  )

test('sequential requests reuse connections and parallel ones have one each', async () => {
  const { send, requests, sockets } = await setup((socket) => socket.write(OK))
  for (let n = 0; n < 10; n++) expect(await send(`/${n}`)).toMatchObject({ status: 200, text: 'ok' })
  expect(sockets.length).toBeLessThanOrEqual(2)
  await Promise.all([send('/a'), send('/b'), send('/c'), send('/d')])
  expect(new Set(requests.slice(-4).map(({ connection }) => connection)).size).toBe(4)
})

test.each([
  ['text', '{"ü":1}', 8],
  ['bytes', new Uint8Array([65, 66]), 2],
])('a body of %s is sent with its length in bytes', async (_kind, body, length) => {
  const { send, requests } = await setup((socket) => socket.write(OK))
  await send('/a', { body })
  const [head, content] = requests
    .map(({ text }) => text)
    .join('')
    .split('\r\n\r\n')
  expect(head).toContain(`content-length: ${length}`)
  expect(content).toBe(Buffer.from(body as string).toString())
})

test('a connection that the server closed or that carries unrequested bytes is not reused', async () => {
  const { send, sockets } = await setup((socket, text) => socket.write(text.startsWith('PUT /more') ? `${OK}HTTP/1.1 400 Bad\r\n\r\n` : OK))
  await send('/a')
  const closed = new Promise((resolve) => sockets[0]?.once('close', resolve))
  sockets[0]?.end()
  await closed
  for (const path of ['/b', '/more', '/c']) expect((await send(path)).text).toBe('ok')
  expect(sockets).toHaveLength(3)
})

test('a truncated, oversized or missing response is an error and closes its connection', async () => {
  const { send, sockets } = await setup((socket, text) => {
    if (text.startsWith('PUT /cut')) socket.end('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nsh')
    if (text.startsWith('PUT /large')) socket.write(`HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n${'x'.repeat(1001)}`)
    if (text.startsWith('PUT /ok')) socket.write(OK)
  })
  expect(await reasonOf(send('/cut'))).toBe('Unreachable')
  expect(await reasonOf(send('/large'))).toBe('AnswerTooLarge')
  expect(await reasonOf(send('/silent', { timeoutMs: 50 }))).toBe('TimedOut')
  const controller = new AbortController()
  const aborted = send('/aborted', { signal: controller.signal })
  controller.abort(new Error('stopped by the test'))
  await expect(aborted).rejects.toThrow('stopped by the test')
  expect((await send('/ok')).text).toBe('ok')
  expect(sockets.length).toBeGreaterThanOrEqual(4)
})

test('a request whose guard throws is not sent, and its connection serves the next request', async () => {
  const { send, requests, sockets } = await setup((socket) => socket.write(OK))
  const guard = () => {
    throw new Error('the Lease is lost')
  }
  await expect(send('/refused', { guard })).rejects.toThrow('the Lease is lost')
  expect((await send('/next')).text).toBe('ok')
  expect([requests.map(({ text }) => text.split(' ')[1]), sockets.length]).toEqual([['/next'], 1])
})

test('closing the pool lets requests in flight complete', async () => {
  const waiting: Socket[] = []
  const { send, pool, inFlight } = await setup((socket) => void waiting.push(socket))
  const requests = [send('/a'), send('/b')]
  await expect.poll(() => waiting.length).toBe(2)
  pool.close()
  waiting[0]?.write(OK)
  expect((await Promise.race(requests)).text).toBe('ok')
  for (const reader of inFlight) reader.fail(new Error('closed'))
  expect((await Promise.allSettled(requests)).map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
})

test.each([
  [{ 'Impersonate-User': 'a\r\nAuthorization: Bearer x' }],
  [{ authorization: 'Bearer secret\n' }],
  [{ 'a b': 'c' }],
  [{ 'a:': 'c' }],
  [{ a: 'ж' }],
])('a header with a forbidden character is rejected without its value in the error', async (headers) => {
  const { send, requests } = await setup((socket) => socket.write(OK))
  const error = await send('/a', { headers: headers }).catch((thrown: unknown) => thrown as KubeError)
  expect(error).toMatchObject({ reason: 'BadRequest' })
  expect((error as KubeError).message).not.toContain('secret')
  expect(requests).toEqual([])
})

const chunked = lines('HTTP/1.1 200 OK', 'Transfer-Encoding: chunked', '', '3', '{"a', '5;x=y', '":"ü', '2', '"}', '0', '', '')

test.each([
  ['with its length', lines('HTTP/1.1 200 OK', 'Content-Length: 5', '', 'häll'), 'häll'],
  ['in chunks', chunked, '{"a":"ü"}'],
  [
    'in chunks with trailers',
    lines('HTTP/1.1 200 OK', 'transfer-encoding: Chunked', '', 'a', '0123456789', '00', 'x-sum: 1', '', ''),
    '0123456789',
  ],
  ['of length 0', lines('HTTP/1.1 200 OK', 'content-length: 0', '', ''), ''],
  ['without a body', lines('HTTP/1.1 204 No Content', '', ''), ''],
  ['after early hints', lines('HTTP/1.1 103 Early Hints', 'link: x', '', OK), 'ok'],
  ['of HTTP/1.0', lines('HTTP/1.0 200 OK', 'content-length: 2', '', 'ok'), 'ok'],
])('a response %s is the same in one piece and byte by byte', async (_what, text, body) => {
  const bytes = Buffer.from(text)
  const { send } = await setup((socket, request) => {
    if (request.startsWith('PUT /whole')) socket.write(bytes)
    else void writeByteByByte(socket, bytes)
  })
  expect((await send('/whole')).text).toBe(body)
  expect((await send('/bytes')).text).toBe(body)
})

async function writeByteByByte(socket: Socket, bytes: Buffer): Promise<void> {
  for (const byte of bytes) {
    socket.write(Buffer.of(byte))
    await nextTurn()
  }
}

test('a response without a length ends with its connection', async () => {
  const { send } = await setup((socket) => socket.end(lines('HTTP/1.1 200 OK', 'content-type: text/html', '', '<html>')))
  expect((await send('/a')).text).toBe('<html>')
})

test.each([
  ['within the headers', 'HTTP/1.1 200 OK\r\n'],
  ['within a chunk', chunked.slice(0, -12)],
  ['before the last chunk', chunked.slice(0, -5)],
])('a response that is cut %s is a lost connection', async (_where, text) => {
  const { send } = await setup((socket) => socket.end(text))
  expect(await reasonOf(send('/a'))).toBe('Unreachable')
})

test('header names are lower case and a repeated header has all its values', async () => {
  const head = ['HTTP/1.1 200 OK', 'Warning: 299 - "a"', 'WARNING:299 - "b"', 'X-Empty:', 'content-length: 0', '', '']
  const { send } = await setup((socket) => socket.write(lines(...head)))
  expect((await send('/a')).headers).toMatchObject({ warning: ['299 - "a"', '299 - "b"'], 'x-empty': '', 'content-length': '0' })
})

test.each([
  ['another protocol', 'SSH-2.0-OpenSSH_9.2\r\n\r\n'],
  ['HTTP/2', 'HTTP/2 200 OK\r\n\r\n'],
  ['an unrequested upgrade', 'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n'],
  ['an empty header name', 'HTTP/1.1 200 OK\r\n: x\r\n\r\n'],
  ['a header name with a blank', 'HTTP/1.1 200 OK\r\na b: x\r\n\r\n'],
  ['a header name with a parenthesis', 'HTTP/1.1 200 OK\r\na(b): x\r\n\r\n'],
  ['a blank before the colon', 'HTTP/1.1 200 OK\r\na : x\r\n\r\n'],
  ['a header without a colon', 'HTTP/1.1 200 OK\r\nnonsense\r\na: b\r\n\r\n'],
  ['a malformed header after the length', 'HTTP/1.1 200 OK\r\ncontent-length: 5\r\na b: x\r\n\r\nhello'],
  ['a NUL in a header', 'HTTP/1.1 200 OK\r\na: b\0c\r\ncontent-length: 0\r\n\r\n'],
  ['a bare LF after the status line', 'HTTP/1.1 200 OK\ncontent-length: 2\r\n\r\nok'],
  ['a bare LF after a header', 'HTTP/1.1 200 OK\r\ncontent-length: 2\n\r\nok'],
  ['a bare CR in a header', 'HTTP/1.1 200 OK\r\na: b\rc: d\r\ncontent-length: 0\r\n\r\n'],
  ['a negative length', 'HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n'],
  ['two different lengths', 'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n'],
  ['a length beside chunks', 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n'],
  ['a chunk without a size', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n'],
  ['a chunk longer than its size', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabc\r\n'],
  ['a bare LF after a chunk size', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\nok\r\n0\r\n\r\n'],
  ['headers beyond the limit', `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(100_000)}`],
])('a response with %s is reported as malformed', async (_what, text) => {
  const { send } = await setup((socket) => socket.write(text))
  expect(await reasonOf(send('/a', { timeoutMs: 2_000 }))).toBe('BadAnswer')
})

test('a response of 0.5 MiB in chunks of one byte retains less than 20 MiB', async () => {
  const { send } = await setup(
    (socket) => {
      socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n')
      for (let sent = 0; sent < 512; sent++) socket.write('1\r\nx\r\n'.repeat(1024))
      socket.write('0\r\n\r\n')
    },
    { bytesMax: 1024 * 1024 },
  )
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  const readRetainedBytes = (): number => {
    collectGarbage()
    const { heapUsed, external } = process.memoryUsage()
    return heapUsed + external
  }
  const samples: number[] = []
  const before = readRetainedBytes()
  const timer = setInterval(() => samples.push(readRetainedBytes() - before), 2)
  const { text } = await send('/a')
  clearInterval(timer)
  expect(text).toHaveLength(512 * 1024)
  expect(samples.length).toBeGreaterThan(0)
  expect(Math.max(...samples)).toBeLessThan(20 * 1024 * 1024)
})
