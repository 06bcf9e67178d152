import type { AgentId, StackId } from '@brokkr/contract/wire.ts'
import { silentLog as log } from '@brokkr/runtime/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics.ts'
import { manualClock } from '@brokkr/testing/clock.ts'
import { expect, test } from 'vitest'
import { agentMetrics } from '../metrics.ts'
import { Outbox } from '../reconcile/outbox.ts'
import { type Answering, json, scriptedBroker } from '../test-parts/scripted-broker.ts'
import { statusLoop } from './status.ts'

const agentId = '0c000000-0000-4000-8000-000000000001' as AgentId
const signal = new AbortController().signal
const good: Answering = (_request, response) => json(response, 200, { accepted: 1, ignored: 0, results: [] })

async function telling(answer: Answering = good) {
  const server = await scriptedBroker(answer)
  const broker = await server.connect()
  const clock = manualClock()
  const metrics = agentMetrics(createMetrics())
  const outbox = new Outbox({ metrics })
  let restarts = 0
  const follow = { summary: () => ({ cursor: 'c', count: 1, digest: 'd' }), restart: () => void (restarts += 1) }
  const loop = statusLoop({ client: broker.client, agentId, outbox, follow, clock, log, metrics, everyMs: 1_000, digestMs: 300_000 })
  const report = (stack: string, rev = 1) =>
    outbox.report({ stack_id: stack as StackId, rev, object_id: null, phase: 'applied', attempts: 1, observed_at: '2026-01-01T00:00:00Z' })
  const event = (id: string) =>
    outbox.event({ id, agent_id: agentId, deployment_object_id: 'o' as never, event_type: 'APPLIED', status: 'SUCCESS' })
  const sent = () =>
    server.requests.map(({ url, body }) => ({ path: url.pathname.split('/').at(-1), body: JSON.parse(body) as Record<string, unknown> }))
  return { server, loop, clock, outbox, report, event, sent, restarts: () => restarts, run: () => loop.run(signal) }
}

test('events go before rows, rows in parts of 200 numbered within the session', async () => {
  const { loop, report, event, sent, run, outbox } = await telling()
  loop.begin(81)
  event('e')
  for (let n = 0; n < 250; n++) report(`s${n}`)
  await run()
  expect(sent().map(({ path }) => path)).toEqual(['batch', 'status', 'status'])
  expect(
    sent()
      .slice(1)
      .map(({ body }) => [body['session'], body['n'], (body['stacks'] as unknown[]).length]),
  ).toEqual([
    [81, 1, 200],
    [81, 2, 50],
  ])
  expect(outbox.isEmpty).toBe(true)
  loop.begin(82)
  report('s0', 2)
  await run()
  expect(sent().at(-1)?.body).toMatchObject({ session: 82, n: 1 })
  await run()
  expect(sent().length).toBe(4)
})

test('what could not be told stays and is told later, ever more seldom while the broker is away', async () => {
  const { loop, report, event, run, outbox, server, sent } = await telling((_request, response) => json(response, 503, {}))
  report('s')
  event('e')
  const every = () => (typeof loop.everyMs === 'function' ? loop.everyMs() : loop.everyMs)
  for (let n = 0; n < 8; n++) await run()
  expect(every()).toBeGreaterThan(10_000)
  expect(outbox.isEmpty).toBe(false)
  server.answer(good)
  await run()
  // With nothing to tell it sleeps until the next comparison.
  expect(outbox.isEmpty).toBe(true)
  expect(every()).toBeGreaterThan(200_000)
  expect(
    sent()
      .slice(-2)
      .map(({ path }) => path),
  ).toEqual(['batch', 'status'])
  report('s', 2)
  expect(every()).toBe(1_000)
})

test.each([
  [403, true],
  [422, true],
  [401, false],
  [429, false],
  [500, false],
])('an event answered with %i is given up: %s', async (status, isGivenUp) => {
  const { event, run, outbox } = await telling((request, response, url) =>
    url.pathname.includes('/events') ? json(response, status, {}) : good(request, response, url),
  )
  event('e')
  await run()
  expect(outbox.isEmpty).toBe(isGivenUp)
})

test('now and then what we hold is compared: a mismatch asks for the list, "moved" is asked again', async () => {
  const answers = ['moved', 'mismatch', 'match']
  const { run, clock, sent, restarts } = await telling((_request, response) =>
    json(response, 200, { accepted: 0, ignored: 0, check: answers.shift() }),
  )
  await run()
  expect(sent()).toEqual([])
  await clock.advance(400_000)
  await run()
  expect(sent()[0]?.body).toMatchObject({ check: { cursor: 'c', count: 1, digest: 'd' }, stacks: [] })
  expect(restarts()).toBe(0)
  await run()
  expect(restarts()).toBe(1)
  await run()
  expect(sent().length).toBe(2)
  await clock.advance(400_000)
  await run()
  expect([sent().length, restarts()]).toEqual([3, 1])
})

test('a quiet agent tells at once, a busy one in batches', async () => {
  const { loop, report, run, clock } = await telling()
  expect(loop.pauseMs()).toBe(0)
  report('s')
  await run()
  expect(loop.pauseMs()).toBe(100)
  for (let n = 0; n < 20; n++) report(`s${n}`, 2)
  await run()
  expect(loop.pauseMs()).toBe(1_000)
  await clock.advance(1_000)
  expect(loop.pauseMs()).toBe(0)
})

test('a broker without batches gets its events one by one, in their order', async () => {
  const { event, run, outbox, sent } = await telling((request, response, url) =>
    url.pathname.endsWith('/batch')
      ? json(response, 404, {})
      : url.pathname.endsWith('/events')
        ? json(response, 201, {})
        : good(request, response, url),
  )
  for (const id of ['a', 'b', 'c']) event(id)
  await run()
  expect(sent().map(({ path, body }) => [path, body['id']])).toEqual([
    ['batch', undefined],
    ['events', 'a'],
    ['events', 'b'],
    ['events', 'c'],
  ])
  expect(outbox.isEmpty).toBe(true)
})

test('of a batch only what was refused is given up, and a batch refused as a whole is sent in parts', async () => {
  const refusing: Answering = (_request, response) => json(response, 200, { results: [{ id: 'b', status: 'refused', code: 'x' }] })
  const { event, run, outbox, server, sent } = await telling(refusing)
  for (const id of ['a', 'b']) event(id)
  await run()
  expect([outbox.isEmpty, sent().length]).toEqual([true, 1])
  server.answer((_request, response, url) => json(response, url.pathname.endsWith('/batch') ? 413 : 201, {}))
  for (const id of ['c', 'd']) event(id)
  await run()
  expect([outbox.isEmpty, sent().map(({ path }) => path)]).toEqual([true, ['batch', 'batch', 'events', 'events']])
})

test('a broker without status reports keeps its rows waiting, and a session makes it asked again', async () => {
  const { loop, report, run, outbox, server, sent } = await telling((_request, response) => json(response, 404, {}))
  report('s')
  await run()
  await run()
  expect([sent().length, outbox.isEmpty]).toEqual([1, false])
  server.answer(good)
  loop.begin(82)
  await run()
  expect(outbox.isEmpty).toBe(true)
})

test('a row that the broker refuses for good does not hold up its neighbours', async () => {
  const { report, run, outbox, sent } = await telling((_request, response) => {
    const { stacks } = sent().at(-1)!.body as { stacks: { stack_id: string }[] }
    json(response, stacks.some(({ stack_id }) => stack_id === 'bad') ? 422 : 200, { accepted: 1, ignored: 0 })
  })
  for (const stack of ['good', 'bad', 'fine']) report(stack)
  await run()
  expect([outbox.isEmpty, sent().length]).toEqual([true, 4])
})

test('a check under a cursor that the broker does not know asks for the list, and the rows go without it', async () => {
  const { report, run, outbox, clock, restarts, sent } = await telling((_request, response) => {
    const hasCheck = 'check' in sent().at(-1)!.body
    json(response, hasCheck ? 400 : 200, hasCheck ? { code: 'bad_cursor', message: 'no' } : { accepted: 1, ignored: 0 })
  })
  await clock.advance(400_000)
  report('s')
  await run()
  expect([sent().length, outbox.isEmpty, restarts()]).toEqual([2, true, 1])
})
