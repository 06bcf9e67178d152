// What nobody can do to a broker by sending: long bodies, slow ones, packed ones, broken ones. Each is cut before it is read or
// parsed, memory stays where it was, and others are served.
// long: waits out the time limits of slow bodies
import { gzipSync } from 'node:zlib'
import { type Endpoint, fillPath } from '@brokkr/contract/endpoint.ts'
import { endpoints } from '@brokkr/contract/endpoints.ts'
import { startTestBroker, type TestBroker } from '@brokkr/testing/broker.ts'
import { afterEach, beforeAll, expect, test } from 'vitest'
import { askRaw, openRaw, statusLines } from './raw-http.fixture.ts'
import { pathValues } from './server.fixture.ts'

let broker: TestBroker
let port: number
let rssBefore: number
const mib = 1024 * 1024
beforeAll(async () => {
  const env = { BROKKR__LIMITS__HEADER_SECONDS: '1', BROKKR__LIMITS__BODY_SECONDS: '1', BROKKR__LOG__LEVEL: 'info' }
  broker = await startTestBroker({ env })
  port = Number(new URL(broker.url).port)
  // Once, so that what is loaded on first use does not count.
  await send(mutations[0]!, ['Content-Length: 3145728'], 'x'.repeat(64))
  rssBefore = await rss()
  return () => broker.kill()
})
afterEach(async () => {
  expect((await fetch(`${broker.url}/healthz`)).status).toBe(200)
})

async function rss(): Promise<number> {
  const text = await (await fetch(`${broker.url}/metrics`)).text()
  return Number(/^process_resident_memory_bytes (\S+)$/m.exec(text)?.[1])
}

const mutations = (Object.values(endpoints) as Endpoint[])
  .filter(({ method }) => method !== 'GET')
  .map(({ method, path }) => `${method} ${fillPath(path, pathValues)}`)
const head = (call: string, lines: readonly string[]) =>
  `${call} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n${lines.map((line) => `${line}\r\n`).join('')}\r\n`

/** Sends the head and a little of the body, never the rest; what comes back before the other side closes. */
async function send(call: string, lines: readonly string[], body: string | Uint8Array): Promise<string> {
  const connection = await openRaw(port)
  connection.send(head(call, lines))
  connection.send(body)
  await connection.closed
  return connection.received()
}

test('[X23] an oversized body without a PAK is refused at once on every route', async () => {
  const answers = await Promise.all(mutations.map((call) => send(call, ['Content-Length: 3145728'], 'x'.repeat(1024))))
  // So many failures of one address are told to wait, which is as short.
  for (const answer of answers) expect([answer, /^HTTP\/1\.1 (401|429) [^]*connection: close/i.test(answer)]).toEqual([answer, true])
  expect(answers.filter((answer) => answer.startsWith('HTTP/1.1 401')).length).toBeGreaterThan(20)
})

test('[X23] a body one byte over the limit returns 413 before the rest is read', async () => {
  const key = `Authorization: Bearer ${broker.adminPak}`
  const declared = await send('POST /api/v1/generators', [key, `Content-Length: ${2 * mib + 1}`], '{')
  expect(statusLines(declared)).toEqual(['HTTP/1.1 413'])
  const connection = await openRaw(port)
  connection.send(head('POST /api/v1/generators', [key, 'Transfer-Encoding: chunked']))
  connection.send(`${(2 * mib + 1).toString(16)}\r\n${'x'.repeat(2 * mib + 1)}`)
  expect(statusLines(await connection.until(/HTTP\/1\.1 \d/))).toEqual(['HTTP/1.1 413'])
  await connection.closed
})

test('[X23] one byte at a time ends at the time limit, in the head and in the body', async () => {
  for (const [start, part, status] of [
    ['POST /api/v1/generators HTTP/1.1\r\nHost: x\r\nX-Slow: ', 'x', '408'],
    [head('POST /api/v1/generators', [`Authorization: Bearer ${broker.adminPak}`, 'Content-Length: 1000']), ' ', '503'],
  ] as const) {
    const connection = await openRaw(port)
    connection.send(start)
    const trickle = setInterval(() => connection.send(part), 100)
    await connection.closed
    clearInterval(trickle)
    expect(statusLines(connection.received())).toEqual([`HTTP/1.1 ${status}`])
  }
})

test('[X23] broken JSON, JSON too deep, both framings at once, two lengths: 4xx', async () => {
  const key = `Authorization: Bearer ${broker.adminPak}`
  const deep = `${'['.repeat(65)}${']'.repeat(65)}`
  for (const body of ['{"', deep, '{"a":1,}', '\u0000'])
    expect([
      body,
      statusLines(
        await askRaw(
          port,
          head('POST /api/v1/generators', [key, `Content-Length: ${Buffer.byteLength(body)}`, 'Connection: close']) + body,
        ),
      ),
    ]).toEqual([body, ['HTTP/1.1 400']])
  for (const lines of [
    ['Content-Length: 5', 'Transfer-Encoding: chunked'],
    ['Content-Length: 1', 'Content-Length: 2'],
  ])
    expect(statusLines(await askRaw(port, head('POST /api/v1/generators', lines)))).toEqual(['HTTP/1.1 400'])
})

test('[X23] a gzip bomb returns 401 without a PAK and 413 with one', async () => {
  const bomb = gzipSync(Buffer.alloc(64 * mib, 0x20), { level: 9 })
  const lines = ['Connection: close', 'Content-Encoding: gzip', `Content-Length: ${bomb.length}`]
  expect(['HTTP/1.1 401', 'HTTP/1.1 429']).toContain(statusLines(await send('POST /api/v1/generators', lines, bomb))[0])
  expect(statusLines(await send('POST /api/v1/generators', [`Authorization: Bearer ${broker.adminPak}`, ...lines], bomb))).toEqual([
    'HTTP/1.1 413',
  ])
})

test('[X23] a hundred concurrent gzip bombs stay within 50 MiB of memory', async () => {
  await Promise.all(
    Array.from({ length: 100 }, (_, n) => send(mutations[n % mutations.length]!, ['Content-Length: 3145728'], 'x'.repeat(64 * 1024))),
  )
  await expect.poll(rss, { timeout: 60_000, interval: 1_000 }).toBeLessThan(rssBefore + 50 * mib)
})
