import { connect } from 'node:net'
import { request } from 'undici'
import { afterEach, expect, test } from 'vitest'
import { type AdminServer, type AdminServerOptions, startAdminServer } from './admin-server.ts'
import { createLog } from './logging/log.ts'
import { createMetrics } from './metrics/metrics.ts'

const open: AdminServer[] = []
afterEach(async () => void (await Promise.all(open.splice(0).map((server) => server.close()))))

async function setup(options: Partial<AdminServerOptions> = {}) {
  const lines: string[] = []
  const metrics = createMetrics()
  metrics.gauge('brokkr_up', 'Up').set(1)
  const log = createLog({ name: 'test', destination: { write: (line) => lines.push(line) } })
  const server = await startAdminServer({ host: '127.0.0.1', port: 0, ready: () => null, metrics, log, ...options })
  open.push(server)
  const ask = async (path: string, method: 'GET' | 'HEAD' | 'POST' = 'GET') => {
    const answer = await request(`http://127.0.0.1:${server.port}${path}`, { method })
    return { status: answer.statusCode, headers: answer.headers, text: await answer.body.text() }
  }
  return { server, ask, lines }
}

test.each([
  ['GET', '/healthz', 200, 'OK'],
  ['HEAD', '/healthz', 200, ''],
  ['GET', '/healthz?x=1', 200, 'OK'],
  ['GET', '/readyz', 200, 'Ready'],
  ['POST', '/readyz', 405, 'Method not allowed: use GET'],
  ['GET', '/', 404, 'Not found: there are /healthz, /readyz and /metrics'],
  ['GET', '/healthz/', 404, 'Not found: there are /healthz, /readyz and /metrics'],
  ['GET', '/constructor', 404, 'Not found: there are /healthz, /readyz and /metrics'],
] as const)('%s %s answers %d', async (method, path, status, text) => {
  const { ask } = await setup()
  expect(await ask(path, method)).toMatchObject({ status, text })
})

test('metrics are served in their own type', async () => {
  const { ask } = await setup()
  expect(await ask('/metrics')).toMatchObject({
    status: 200,
    text: expect.stringContaining('brokkr_up 1'),
    headers: { 'content-type': expect.stringContaining('version=0.0.4'), 'cache-control': 'no-store' },
  })
})

test('/readyz contains the reason without secrets if the program is not ready', async () => {
  let reason: string | null = 'starting'
  const { ask } = await setup({ ready: () => Promise.resolve(reason) })
  expect(await ask('/readyz')).toMatchObject({ status: 503, text: 'starting' })
  reason = 'cannot reach postgres://u:hunter2@db/brokkr'
  expect(await ask('/readyz')).toMatchObject({ status: 503, text: 'cannot reach postgres://db/brokkr' })
  expect(await ask('/healthz')).toMatchObject({ status: 200 })
  reason = null
  expect(await ask('/readyz')).toMatchObject({ status: 200 })
})

test('a readiness check that throws or hangs is "not ready", and logged', async () => {
  const failing = await setup({ ready: () => Promise.reject(new Error('hunter2')) })
  expect(await failing.ask('/readyz')).toMatchObject({ status: 503, text: 'the readiness check failed; the reason is in the log' })
  expect(failing.lines[0]).toContain('probe failed')
  const hanging = await setup({ ready: () => new Promise(() => {}), answerTimeoutMs: 20 })
  expect(await hanging.ask('/readyz')).toMatchObject({ status: 503, text: 'the readiness check took longer than 20 ms' })
})

test('a port in use is a clear message', async () => {
  const { server } = await setup()
  await expect(setup({ port: server.port })).rejects.toThrow(`cannot listen on 127.0.0.1:${server.port}: choose another port`)
})

test('closing ends connections that send nothing', async () => {
  const { server } = await setup()
  const socket = connect(server.port, '127.0.0.1')
  const ended = new Promise((resolve) => socket.once('close', resolve))
  await new Promise((resolve) => socket.once('connect', resolve))
  socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n')
  await new Promise((resolve) => socket.once('data', resolve))
  await server.close()
  await ended
  expect(socket.destroyed).toBe(true)
})
