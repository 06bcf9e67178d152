import type { AgentId, StackId } from '@brokkr/contract/wire.ts'
import { silentLog as log } from '@brokkr/runtime/logging/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { manualClock } from '@brokkr/testing/clock.ts'
import { expect, test } from 'vitest'
import { agentMetrics } from '../metrics.ts'
import { type Answering, json, scriptedBroker } from '../test-parts/scripted-broker.ts'
import { Outbox } from './outbox.ts'
import { statusLoop } from './status-loop.ts'

const agentId = '0c000000-0000-4000-8000-000000000001' as AgentId
const signal = new AbortController().signal
const good: Answering = (_request, response, _url, body) => {
  const { events = [] } = JSON.parse(body ?? '{}') as { events?: { id: string }[] }
  json(response, 200, { accepted: 1, ignored: 0, results: events.map(({ id }) => ({ id, status: 'stored' })) })
}
const html: Answering = (_request, response) => {
  response.writeHead(403, { 'content-type': 'text/html' })
  response.end('<html>blocked by policy</html>')
}

async function telling(answer: Answering = good) {
  const server = await scriptedBroker(answer)
  const broker = await server.connect()
  const clock = manualClock()
  const metrics = agentMetrics(createMetrics())
  const outbox = new Outbox({ metrics })
  let restarts = 0
  const sync = { summary: () => ({ cursor: 'c', count: 1, digest: 'd' }), restart: () => void (restarts += 1) }
  const loop = statusLoop({ client: broker.client, agentId, outbox, sync, clock, log, metrics, everyMs: 1_000, digestMs: 300_000 })
  const report = (stack: string, rev = 1) =>
    outbox.report({ stack_id: stack as StackId, rev, object_id: null, phase: 'applied', attempts: 1, observed_at: '2026-01-01T00:00:00Z' })
  const event = (id: string) =>
    outbox.event({ id, agent_id: agentId, deployment_object_id: 'o' as never, event_type: 'APPLIED', status: 'SUCCESS' })
  const sent = () =>
    server.requests.map(({ url, body }) => ({ path: url.pathname.split('/').at(-1), body: JSON.parse(body) as Record<string, unknown> }))
  return { server, loop, clock, outbox, report, event, sent, restarts: () => restarts, run: () => loop.run(signal) }
}

test('status rows are sent after events in batches of 200', async () => {
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

test('unsent reports are retried with increasing pauses while the broker is unreachable', async () => {
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
  [422, 'foreign_key_violation', true],
  [403, 'agent_not_associated', true],
  [413, 'payload_too_large', true],
  [403, 'agent_pak_mismatch', false],
  [403, 'forbidden', false],
  [404, 'agent_not_found', false],
  [422, undefined, false],
  [413, undefined, false],
  [403, undefined, false],
  [401, undefined, false],
  [429, 'rate_limited', false],
  [500, 'internal_error', false],
])('an event rejected with %i %s is dropped: %s', async (status, code, isGivenUp) => {
  const { event, run, outbox } = await telling((request, response, url, body) =>
    url.pathname.includes('/events')
      ? json(response, status, code === undefined ? {} : { code, message: 'no' })
      : good(request, response, url, body),
  )
  event('e')
  await run()
  expect(outbox.isEmpty).toBe(isGivenUp)
})

test('500 spooled events and all rows survive a proxy that returns 403 with its own page', async () => {
  const { event, report, run, outbox, server, sent } = await telling(html)
  for (let n = 0; n < 500; n++) event(`e${n}`)
  report('s')
  await run()
  await run()
  server.answer(good)
  const before = sent().length
  await run()
  expect(outbox.isEmpty).toBe(true)
  const events = sent()
    .slice(before)
    .flatMap(({ body }) => (body['events'] as unknown[] | undefined) ?? [])
  expect(events.length).toBe(500)
})

test('status rows wait after every error that is not about their content', async () => {
  for (const answer of [html, ((_request, response) => json(response, 403, { code: 'readonly', message: 'no' })) as Answering]) {
    const { report, run, outbox } = await telling(answer)
    for (const stack of ['a', 'b']) report(stack)
    await run()
    expect(outbox.isEmpty).toBe(false)
  }
})

test('a batch of events or rows that is too large for a proxy is sent one by one', async () => {
  const { event, report, run, outbox, sent } = await telling((request, response, url, body) => {
    const { events, stacks } = JSON.parse(body ?? '{}') as { events?: unknown[]; stacks?: unknown[] }
    if ((events ?? stacks ?? []).length <= 1) return good(request, response, url, body)
    response.writeHead(413, { 'content-type': 'text/html' }).end('<html>413 Request Entity Too Large</html>')
  })
  for (const id of ['a', 'b']) event(id)
  for (const stack of ['c', 'd']) report(stack)
  await run()
  expect(sent().map(({ path }) => path)).toEqual(['batch', 'events', 'events', 'status', 'status', 'status'])
  expect(outbox.isEmpty).toBe(true)
})

test('events that a batch response does not list stay in the spool', async () => {
  const { event, run, outbox, server } = await telling((_request, response) =>
    json(response, 200, { results: [{ id: 'a', status: 'stored' }] }),
  )
  for (const id of ['a', 'b']) event(id)
  await run()
  expect(outbox.nextEvents().map(({ id }) => id)).toEqual(['b'])
  server.answer(good)
  await run()
  expect(outbox.isEmpty).toBe(true)
})

test('a digest mismatch requests a snapshot, and a moved cursor is compared again', async () => {
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

test('an idle agent reports at once, a busy one in batches', async () => {
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

test('a broker without batches receives events one by one in order', async () => {
  const { event, run, outbox, sent } = await telling((request, response, url, body) =>
    url.pathname.endsWith('/batch')
      ? json(response, 404, {})
      : url.pathname.endsWith('/events')
        ? json(response, 201, {})
        : good(request, response, url, body),
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

test('only rejected events of a batch are dropped, and a rejected batch is split', async () => {
  const refusing: Answering = (_request, response) =>
    json(response, 200, {
      results: [
        { id: 'a', status: 'stored' },
        { id: 'b', status: 'refused', code: 'x' },
      ],
    })
  const { event, run, outbox, server, sent } = await telling(refusing)
  for (const id of ['a', 'b']) event(id)
  await run()
  expect([outbox.isEmpty, sent().length]).toEqual([true, 1])
  server.answer((_request, response, url) =>
    json(response, url.pathname.endsWith('/batch') ? 413 : 201, { code: 'payload_too_large', message: 'no' }),
  )
  for (const id of ['c', 'd']) event(id)
  await run()
  expect([outbox.isEmpty, sent().map(({ path }) => path)]).toEqual([true, ['batch', 'batch', 'events', 'events']])
})

test('rows wait for a broker without status reports until the next session', async () => {
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

test('a row that the broker rejects does not block other rows', async () => {
  const { report, run, outbox, sent } = await telling((_request, response) => {
    const { stacks } = sent().at(-1)!.body as { stacks: { stack_id: string }[] }
    const isBad = stacks.some(({ stack_id }) => stack_id === 'bad')
    json(response, isBad ? 422 : 200, isBad ? { code: 'validation_failed', message: 'no' } : { accepted: 1, ignored: 0 })
  })
  for (const stack of ['good', 'bad', 'fine']) report(stack)
  await run()
  expect([outbox.isEmpty, sent().length]).toEqual([true, 4])
})

test('a digest check with an unknown cursor requests a snapshot, and rows are still sent', async () => {
  const { report, run, outbox, clock, restarts, sent } = await telling((_request, response) => {
    const hasCheck = 'check' in sent().at(-1)!.body
    json(response, hasCheck ? 400 : 200, hasCheck ? { code: 'bad_cursor', message: 'no' } : { accepted: 1, ignored: 0 })
  })
  await clock.advance(400_000)
  report('s')
  await run()
  expect([sent().length, outbox.isEmpty, restarts()]).toEqual([2, true, 1])
})
