import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { silentLog as log } from '@brokkr/runtime/logging/log.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, onTestFinished, test } from 'vitest'
import { type Message, newMessage } from '../../message/message.ts'
import { isMasked, Tap, toTypes } from './tap.ts'
import { startTapServer } from './tap-server.ts'

const masked = { transformations: [{ type: 'mask', when: undefined }] } as unknown as Parameters<typeof isMasked>[0]
const unmasked = { transformations: [] } as unknown as Parameters<typeof isMasked>[0]
const record = (json: object): Message =>
  newMessage({ json: json as never, key: Buffer.from('secret-key'), metadata: { note: 'secret' }, position: 'secret-1', partition: 0 })

function setup(flow = masked) {
  let nowMs = 10_000
  const tap = new Tap({ clock: { ...systemClock, now: () => nowMs, monotonicMs: () => nowMs } }, flow)
  const lines: { at: string; record?: unknown; types?: unknown; bytes?: number }[] = []
  return { tap, lines, advance: (ms: number) => void (nowMs += ms), read: () => tap.read((line) => lines.push(JSON.parse(line))) }
}

test('records of a flow with a mask are shown without key, metadata and position', () => {
  const { tap, lines, read } = setup()
  read()
  tap.offer([record({ card: '***' })])
  expect(lines).toEqual([{ at: '1970-01-01T00:00:10.000Z', record: { card: '***' } }])
})

test('a flow without a mask, or with a mask for some records, shows keys and types', () => {
  const { tap, lines, read } = setup(unmasked)
  read()
  tap.offer([record({ card: '4111', n: 1, deep: { list: [{ a: true }, 2], none: null } })])
  expect(lines).toMatchObject([{ types: { card: 'string', n: 'number', deep: { list: [{ a: 'boolean' }], none: 'null' } } }])
  expect(JSON.stringify(lines)).not.toMatch(/4111|secret/)
  expect(isMasked({ transformations: [{ type: 'mask', when: {} }] } as unknown as Parameters<typeof isMasked>[0])).toBe(false)
})

test('nothing is sampled while nobody reads, and at most 20 records a second', () => {
  const { tap, lines, read, advance } = setup()
  const many = Array.from({ length: 50 }, (_, n) => record({ n }))
  tap.offer(many)
  const stop = read()
  tap.offer(many)
  expect(lines).toHaveLength(20)
  advance(999)
  tap.offer(many)
  expect(lines).toHaveLength(20)
  advance(1)
  tap.offer(many)
  expect(lines).toHaveLength(40)
  stop()
  advance(1_000)
  tap.offer(many)
  expect([lines.length, tap.readers]).toEqual([40, 0])
})

test('a large record and one that is no JSON are shown by their form', () => {
  const { tap, lines, read } = setup()
  read()
  const opaque = newMessage({ raw: Buffer.from('no json'), metadata: {}, position: 1, partition: 0 })
  tap.offer([record({ text: 'x'.repeat(100_000) }), opaque])
  expect(lines).toMatchObject([{ types: { text: 'string' } }, { bytes: 7 }])
  let deep: object = {}
  for (let n = 0; n < 100; n++) deep = { deep }
  expect(JSON.stringify(toTypes(deep as never)).length).toBeLessThan(1_000)
})

const status = (port: number, options: { path?: string; method?: string; host?: string } = {}) =>
  new Promise<number>((resolve, reject) => {
    const { path = '/tap', method = 'GET', host = `127.0.0.1:${port}` } = options
    request({ port, host: '127.0.0.1', path, method, headers: { host } }, (response) => {
      resolve(response.statusCode ?? 0)
      response.destroy()
    })
      .once('error', reject)
      .end()
  })

test('the server streams lines to its readers and refuses everything else', async () => {
  const { tap } = setup()
  const server = await startTapServer({ tap, log }, 0)
  onTestFinished(() => server.close())
  const port = server.port!
  const response = await fetch(`http://127.0.0.1:${port}/tap`)
  await waitFor('the reader', () => tap.readers === 1)
  tap.offer([record({ card: '***' })])
  const { value } = await response.body!.getReader().read()
  expect(JSON.parse(Buffer.from(value).toString())).toMatchObject({ record: { card: '***' } })
  expect(await status(port, { path: '/' })).toBe(404)
  expect(await status(port, { method: 'POST' })).toBe(405)
  expect(await status(port, { host: 'rebound.example' })).toBe(403)
  const more = await Promise.all([1, 2, 3].map(() => fetch(`http://127.0.0.1:${port}/tap`)))
  await waitFor('all readers', () => tap.readers === 4)
  expect(await status(port)).toBe(503)
  for (const one of more) await one.body?.cancel()
  await waitFor('one reader', () => tap.readers === 1)
})

test('a port that is taken leaves the flow without its tap', async () => {
  const other = createServer()
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void other.close())
  const server = await startTapServer({ tap: setup().tap, log }, (other.address() as AddressInfo).port)
  expect(server.port).toBeUndefined()
  await server.close()
})
