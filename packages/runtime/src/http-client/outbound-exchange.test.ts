// What the outbound client does besides its guards, which outbound.test.ts proves.
import { createServer as createHttp, type IncomingMessage, type RequestListener } from 'node:http'
import { createServer as createTcp } from 'node:net'
import { afterEach, expect, test, vi } from 'vitest'
import { closeAll, httpServer, innerListener, listen, outbound, outside, outsideHost } from '../test-parts/outbound-servers.ts'

afterEach(closeAll)

test('a host allowed by name is reached at any address, other hosts are not', async () => {
  const port = await listen(createHttp((_request, response) => response.end('hello')))
  const client = outbound({ allow: { hosts: ['forge.internal'] } }, () => Promise.resolve(['127.0.0.1']))
  expect((await client.request({ url: `http://forge.internal:${port}/` })).status).toBe(200)
  await expect(client.request({ url: `http://other.internal:${port}/` })).rejects.toMatchObject({ code: 'address_refused' })
})

test('a changed allow list closes connections of the old one', async () => {
  const url = await httpServer((_request, response) => response.end('hello'))
  let allow = outside
  const client = outbound({ allow: () => allow }, () => Promise.resolve([outsideHost]))
  const named = url.replace(outsideHost, 'hook.example')
  expect((await client.request({ url: named })).status).toBe(200)
  allow = {}
  await expect(client.request({ url: named })).rejects.toMatchObject({ code: 'address_refused' })
})

test('a plain server behind https is refused', async () => {
  const port = await listen(
    createTcp((socket) => socket.on('error', () => {}).end('HTTP/1.1 400 Bad\r\n\r\n')),
    outsideHost,
  )
  await expect(outbound({ allow: outside }).request({ url: `https://${outsideHost}:${port}/` })).rejects.toMatchObject({
    code: 'tls_refused',
  })
})

test('a request contains method, path, query, headers and body unchanged', async () => {
  const got = Promise.withResolvers<{ request: IncomingMessage; body: string }>()
  const url = await httpServer((request, response) => {
    let body = ''
    request
      .setEncoding('utf8')
      .on('data', (text: string) => (body += text))
      .on('end', () => {
        got.resolve({ request, body })
        response.writeHead(202, { 'x-answer': 'yes' }).end('accepted')
      })
  })
  const answer = await outbound({ allow: outside }).request({
    method: 'PUT',
    url: `${url}/a%20b?c=d#e`,
    headers: { 'Content-Type': 'application/json' },
    body: '{"x":1}',
  })
  const { request, body } = await got.promise
  expect(answer).toMatchObject({ status: 202, headers: { 'x-answer': 'yes' }, isCut: false })
  expect(String(answer.body)).toBe('accepted')
  expect({ method: request.method, url: request.url, body, headers: request.headers }).toMatchObject({
    method: 'PUT',
    url: '/a%20b?c=d',
    body: '{"x":1}',
    headers: { 'content-type': 'application/json', 'user-agent': 'brokkr', host: url.slice('http://'.length) },
  })
})

test.each([
  ['Host', 'x'],
  ['content-length', '5'],
  ['Transfer-Encoding', 'chunked'],
  ['connection', 'upgrade'],
  ['proxy-authorization', 'x'],
  ['x-split', 'a\r\nx-injected: 1'],
  ['x-nul', 'a\0b'],
  ['x-wide', 'ž'],
  ['bad name', 'x'],
  ['', 'x'],
  ['x-long', 'x'.repeat(9_000)],
])('the header %s is refused without its value', async (name, value) => {
  const outcome = await outbound({ allow: outside })
    .request({ url: `http://${outsideHost}:1/`, headers: { [name]: value } })
    .catch((error: unknown) => error)
  expect(outcome).toMatchObject({ name: 'Terminal', code: 'header_refused' })
  expect((outcome as Error).message).not.toContain('injected')
})

test('an answer over its bound fails or is cut, and the rest is not read', async () => {
  let isEnded = false
  const url = await httpServer((request, response) => {
    const timer = setInterval(() => response.write(Buffer.alloc(64 * 1024)), 1)
    request.socket.once('close', () => {
      isEnded = true
      clearInterval(timer)
    })
  })
  const client = outbound({ allow: outside, answerBytesMax: 1_000 })
  await expect(client.request({ url })).rejects.toMatchObject({ name: 'Terminal', code: 'answer_too_large' })
  const cut = await client.request({ url, overflow: 'cut' })
  expect({ bytes: cut.body.length, isCut: cut.isCut }).toEqual({ bytes: 1_000, isCut: true })
  await vi.waitFor(() => expect(isEnded).toBe(true), { timeout: 10_000 })
})

test('a large response can be streamed', async () => {
  const url = await httpServer((_request, response) => response.end(Buffer.alloc(1_000_000)))
  const client = outbound({ allow: outside })
  const { body, status } = await client.open({ url, answerBytesMax: 2_000_000 })
  let bytes = 0
  for await (const chunk of body) bytes += chunk.length
  expect({ status, bytes }).toEqual({ status: 200, bytes: 1_000_000 })
  const small = await client.open({ url, answerBytesMax: 10_000 })
  await expect(
    (async () => {
      for await (const _ of small.body);
    })(),
  ).rejects.toMatchObject({ code: 'answer_too_large' })
})

test.each<[string, RequestListener]>([
  ['never answers', () => {}],
  ['stops in the middle', (_request, response) => void response.write('half')],
])('a server that %s is left after the time limit', async (_what, handle) => {
  const url = await httpServer(handle)
  await expect(outbound({ allow: outside }).request({ url, timeoutMs: 100 })).rejects.toMatchObject({ name: 'Retryable', code: 'timeout' })
})

test("the caller's signal ends the request with the caller's reason", async () => {
  const asked = Promise.withResolvers<void>()
  const url = await httpServer(() => asked.resolve())
  const controller = new AbortController()
  const sent = outbound({ allow: outside }).request({ url, signal: controller.signal })
  await asked.promise
  const reason = new Error('stopping')
  controller.abort(reason)
  await expect(sent).rejects.toBe(reason)
})

test('a refused connection, an unknown name and a broken response are retryable', async () => {
  const gone = await innerListener(outsideHost)
  const client = outbound({ allow: outside }, (name) =>
    name === 'none.example' ? Promise.reject(new Error('ENOTFOUND')) : Promise.resolve([]),
  )
  const urls = [
    `http://${outsideHost}:${gone.port}/secret-path?secret=1`,
    'http://none.example/secret-path',
    'http://empty.example/secret-path',
  ]
  for (const url of urls) {
    const outcome = (await client.request({ url }).catch((error: unknown) => error)) as Error
    expect(outcome).toMatchObject({ name: 'Retryable', code: 'unreachable' })
    expect(outcome.message).not.toContain('secret')
  }
})

test('an address that refuses is followed by the next one', async () => {
  const url = await httpServer((_request, response) => response.end('second'))
  const client = outbound({ allow: { cidrs: ['127.0.0.0/8'] } }, () => Promise.resolve(['127.0.0.3', outsideHost]))
  expect(String((await client.request({ url: url.replace(outsideHost, 'hook.example') })).body)).toBe('second')
})

test('connections are reused', async () => {
  const ports = new Set<number | undefined>()
  const url = await httpServer((request, response) => {
    ports.add(request.socket.remotePort)
    response.end('x')
  })
  const client = outbound({ allow: outside })
  for (let n = 0; n < 20; n += 1) await client.request({ url })
  expect(ports.size).toBeLessThan(5)
})

test('plain HTTP is rejected if https is required, and every request after close', async () => {
  const client = outbound({ schemes: ['https:'] })
  await expect(client.request({ url: 'http://example.com/' })).rejects.toMatchObject({ code: 'url_refused' })
  await client.close()
  await expect(client.request({ url: 'https://example.com/' })).rejects.toMatchObject({ code: 'closed' })
})
