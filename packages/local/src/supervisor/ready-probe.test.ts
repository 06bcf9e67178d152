import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { waitUntilReady } from './ready-probe.ts'

const options = { isRunning: () => true, limitMs: 30_000, signal: new AbortController().signal }

test('an address is ready when it answers 2xx', async () => {
  const statuses = [503, 404, 302, 204]
  const server = createServer((_request, response) => response.writeHead(statuses.shift() ?? 500).end())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  expect(await waitUntilReady(`http://127.0.0.1:${(server.address() as AddressInfo).port}/readyz`, options)).toBe(true)
  expect(statuses).toEqual([])
})

test('a probe that throws is repeated', async () => {
  let asked = 0
  const ready = async () => {
    asked += 1
    if (asked < 3) throw new Error('refused')
    return true
  }
  expect(await waitUntilReady(ready, options)).toBe(true)
  expect(asked).toBe(3)
})

test('an ended program is not ready even if its address answers', async () => {
  let isRunning = true
  const ready = async () => {
    isRunning = false
    return true
  }
  expect(await waitUntilReady(ready, { ...options, isRunning: () => isRunning })).toBe(false)
  expect(await waitUntilReady(async () => true, { ...options, isRunning: () => false })).toBe(false)
})

test('waitUntilReady throws after the limit and on abort', async () => {
  await expect(waitUntilReady(async () => false, { ...options, limitMs: 10 })).rejects.toThrow('not ready after 0.01 s')
  await expect(waitUntilReady(() => new Promise(() => {}), { ...options, limitMs: 10 })).rejects.toThrow('not ready after 0.01 s')
  const stop = new AbortController()
  const waiting = waitUntilReady(async () => false, { ...options, signal: stop.signal })
  stop.abort(new Error('called off'))
  await expect(waiting).rejects.toThrow(/aborted|called off/)
})
