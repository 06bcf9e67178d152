import { once } from 'node:events'
import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { issueCertificate } from '@brokkr/runtime/test-parts/certificates.ts'
import { afterEach, expect, test } from 'vitest'
import { announceSole, letParserGo } from './sole-answer.ts'

const request = 'GET / HTTP/1.1\r\nhost: here\r\n\r\n'
const issued = issueCertificate({ name: 'here', hosts: ['127.0.0.1'] })
const closing: (() => void)[] = []
afterEach(() => {
  for (const close of closing.splice(0)) close()
})

test.each(['plain', 'tls'] as const)(
  '%s: the parser goes, frames still arrive as chunks, and the end of the answer ends the connection',
  async (kind) => {
    const { response, socket, received } = await opened(kind)
    expect(parserOf(response)).toBeNull()
    response.write('two\n')
    response.end('three\n')
    await once(socket, 'close')
    expect(received()).toMatch(/^HTTP\/1.1 200 OK\r\n/)
    expect(received()).toMatch(/connection: close\r\n/i)
    expect(received().split('\r\n\r\n').slice(1).join('\r\n\r\n')).toBe('4\r\none\n\r\n4\r\ntwo\n\r\n6\r\nthree\n\r\n0\r\n\r\n')
  },
)

test.each(['plain', 'tls'] as const)('%s: another request on the connection is not answered and breaks nothing', async (kind) => {
  const { response, socket, received, requests } = await opened(kind)
  socket.write(request + request + 'no request at all')
  socket.write(Buffer.alloc(100_000, 'x'))
  response.write('two\n')
  response.end()
  await once(socket, 'close')
  expect(received()).toContain('two\n')
  expect(requests()).toBe(1)
})

test.each(['plain', 'tls'] as const)('%s: a far end that closes its side ends the answer', async (kind) => {
  const { response, socket } = await opened(kind)
  socket.end()
  await once(response, 'close')
  expect(response.socket?.destroyed ?? true).toBe(true)
})

test('a far end that is reset ends the answer', async () => {
  const { response, socket } = await opened('plain')
  socket.resetAndDestroy()
  await once(response, 'close')
})

test('an answer that is over before its turn comes is left alone', async () => {
  const { response, socket, received } = await opened('plain', (one) => one.end('last\n'))
  await once(socket, 'close')
  expect(received()).toContain('last\n')
  expect(response.writableFinished).toBe(true)
})

/** An answer whose parser was let go, and the far end of its connection. */
async function opened(kind: 'plain' | 'tls', then: (response: ServerResponse) => void = () => undefined) {
  let requests = 0
  const answered = Promise.withResolvers<ServerResponse>()
  const listener: RequestListener = (_, response) => {
    requests += 1
    announceSole(response)
    response.writeHead(200)
    response.write('one\n')
    letParserGo(response)
    then(response)
    answered.resolve(response)
  }
  const server = kind === 'plain' ? createServer(listener) : createTlsServer({ cert: issued.certPem, key: issued.keyPem }, listener)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const socket: Socket = kind === 'plain' ? connect(port, '127.0.0.1') : connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false })
  closing.push(() => {
    socket.destroy()
    server.close()
  })
  let text = ''
  socket.on('error', () => undefined)
  socket.on('data', (chunk: Buffer) => (text += chunk.toString()))
  socket.write(request)
  const response = await answered.promise
  await once(socket, 'data')
  await new Promise((resolve) => setImmediate(resolve))
  return { response, socket, received: () => text, requests: () => requests }
}

const parserOf = ({ socket }: ServerResponse): unknown => (socket === null ? 'no socket' : Reflect.get(socket, 'parser'))
