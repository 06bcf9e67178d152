// Flows on a real Kafka whose sinks refuse or are missing: routes, the errors sink, letters as notices, figures.
import { uniqueName } from '@brokkr/testing/servers/kafka.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { committed, fill, withAdmin } from '../connectors/test-parts/kafka-topics.ts'
import { createTopic, kafkaSetup, lettersOf, limitTopic, valuesOf } from './test-parts/kafka-setup.ts'
import { startFlow } from './test-parts/real-flow.ts'

const limits = { limitMs: 120_000 }
const large = (n: number) => ({ value: JSON.stringify({ n, pad: 'x'.repeat(900) }) })

async function setupRoutes() {
  const setup = await kafkaSetup()
  const [a, b] = [uniqueName('a'), uniqueName('b')]
  for (const topic of [a, b]) await createTopic(setup.broker, topic)
  const deleteA = () => withAdmin(setup.broker, (admin) => admin.deleteTopics({ topics: [a] }))
  const routesWith = (more: object) => [
    { name: 'a', condition: "to == 'a'", sink: setup.kafkaSink(a), ...more },
    { name: 'b', condition: "to == 'b'", sink: setup.kafkaSink(b) },
  ]
  return { ...setup, a, b, deleteA, routesWith }
}
const routed = (to: string, count: number) =>
  Array.from({ length: count }, (_, n) => ({ value: JSON.stringify({ to, n, pad: 'x'.repeat(2000) }) }))

test('[D70] a failing route leaves the others running until the budget is spent', async () => {
  const { broker, from, a, b, group, source, sink, deleteA, routesWith } = await setupRoutes()
  const spec = { source, sink, maxInFlightBytes: '1Mi' }
  const flow = startFlow({ ...spec, transformations: [{ type: 'router', config: { routes: routesWith({}) } }] })
  await waitFor('the flow to read', () => flow.pipeline.isReady, limits)
  await deleteA()
  await fill(from, [...routed('a', 5), ...routed('b', 200)])
  await waitFor('all of route b', async () => (await valuesOf(b)).length === 200, limits)
  expect((await committed(group, from))[0] ?? 0).toBe(0)
  for (let at = 0; at < 4; at += 1) await fill(from, routed('a', 200))
  await fill(from, routed('b', 100))
  await waitFor('the budget to be spent', () => flow.pipeline.budget.isSpent, limits)
  await waitFor('the route to be missed', () => flow.progress().flowing.status === 'False', limits)
  expect(await valuesOf(b)).toHaveLength(200)
  await createTopic(broker, a)
  await waitFor('everything', async () => (await committed(group, from))[0] === 1105, limits)
  expect([(await valuesOf(a)).length, (await valuesOf(b)).length]).toEqual([805, 300])
  await flow.stop()

  const second = await setupRoutes()
  const routes = second.routesWith({ onUnavailable: 'deadLetter', after: '1s' })
  const other = startFlow({
    source: second.source,
    sink: second.sink,
    errors: second.errors,
    transformations: [{ type: 'router', config: { routes } }],
  })
  await waitFor('the flow to read', () => other.pipeline.isReady, limits)
  await second.deleteA()
  await fill(second.from, [...routed('a', 20), ...routed('b', 200)])
  await waitFor('route b is not slowed', async () => (await valuesOf(second.b)).length === 200, limits)
  await waitFor('everything is committed', async () => (await committed(second.group, second.from))[0] === 220, limits)
  const letters = await lettersOf(second.dead)
  expect(letters).toHaveLength(20)
  expect(letters[0]).toMatchObject({ error: { stage: 'sink', route: 'a' }, original_message: { to: 'a', n: 0 } })
  await other.stop()
})

test('[D71] no position after a dead letter is committed while the errors sink is unavailable', async () => {
  const { broker, from, to, dead, group, source, sink, errors } = await kafkaSetup()
  const flow = startFlow({ source, sink, errors, transformations: [{ type: 'cast', config: { spec: { n: 'int64' } } }] })
  await waitFor('the flow to read', () => flow.pipeline.isReady, limits)
  await withAdmin(broker, (admin) => admin.deleteTopics({ topics: [dead] }))
  await fill(from, [{ value: '{"n":1}' }, { value: '{"n":"x"}' }, { value: '{"n":3}' }])
  await waitFor('the rest is written', async () => (await valuesOf(to)).length === 2, limits)
  await waitFor('the errors sink to be missed', () => flow.progress().flowing.status === 'False', limits)
  await waitFor('the commit before it', async () => (await committed(group, from))[0] === 1, limits)
  await createTopic(broker, dead)
  await waitFor('the commit behind it', async () => (await committed(group, from))[0] === 3, limits)
  expect(await lettersOf(dead)).toHaveLength(1)
  await flow.stop()
})

test('[D78] ackPolicy never stops the prefix; afterMainSinkSuccess writes letter, then record', async () => {
  const { broker, from, to, dead, group, source, kafkaSink, errors } = await kafkaSetup()
  await limitTopic(broker, to, 500)
  await fill(from, [{ value: '{"n":0}' }, large(1), { value: '{"n":2}' }])
  const sink = kafkaSink(to, { compression: 'none' })
  const never = { source, sink, errors: { ...errors, ackPolicy: 'never' } }
  const first = startFlow(never)
  await waitFor('the letter', async () => (await lettersOf(dead)).length === 1, limits)
  await waitFor('the rest', async () => (await valuesOf(to)).length === 2, limits)
  expect(first.progress().flowing.message).toContain('stay open')
  await first.stop()
  expect(await committed(group, from)).toEqual({ 0: 1 })
  const again = startFlow(never)
  await waitFor('it is read again', async () => (await lettersOf(dead)).length === 2, limits)
  await again.stop()
  const ids = (await lettersOf(dead)).map(({ error }) => error.id)
  expect(new Set(ids).size).toBe(1)
  expect(await committed(group, from)).toEqual({ 0: 1 })

  const notice = startFlow({ source, sink, errors: { ...errors, ackPolicy: 'afterMainSinkSuccess' } })
  await waitFor('the notice', async () => (await lettersOf(dead)).length === 3, limits)
  const tries = async () =>
    Number(/dataflow_connector_errors_total\{[^}]*operation="write"[^}]*\} (\d+)/.exec(await notice.metrics())?.[1] ?? 0)
  const before = await tries()
  await waitFor('further tries', async () => (await tries()) > before + 2, limits)
  expect(await committed(group, from)).toEqual({ 0: 1 })
  await limitTopic(broker, to, 100_000)
  await waitFor('the record itself', async () => (await committed(group, from))[0] === 3, limits)
  expect(await lettersOf(dead)).toHaveLength(3)
  expect((await valuesOf(to)).filter((value) => value?.includes('"n":1,'))).toHaveLength(1)
  expect(notice.progress()).toMatchObject({ errorCount: 0 })
  await notice.stop()
})

test('[D82] a record counts as sent when acknowledged; its latency includes the queue time', async () => {
  const { broker, from, to, source, sink } = await kafkaSetup()
  const flow = startFlow({ source, sink })
  await waitFor('the flow to read', () => flow.pipeline.isReady, limits)
  await withAdmin(broker, (admin) => admin.deleteTopics({ topics: [to] }))
  await fill(from, [{ value: '{"n":1}' }])
  const figure = async (pattern: RegExp) => Number(pattern.exec(await flow.metrics())?.[1] ?? 0)
  const sent = () => figure(/dataflow_messages_sent_total\{[^}]*\} (\d+)/)
  const failures = () => figure(/dataflow_connector_errors_total\{[^}]*operation="write"[^}]*\} (\d+)/)
  await waitFor('failed writes', async () => (await failures()) >= 3, limits)
  expect(await sent()).toBe(0)
  await createTopic(broker, to)
  await waitFor('the write', async () => (await sent()) === 1, limits)
  expect(await figure(/dataflow_task_end_to_end_latency_seconds_count\{[^}]*\} (\d+)/)).toBe(1)
  // Three tries with waits of 50, 100 and 200 ms lie before it.
  expect(await figure(/dataflow_task_end_to_end_latency_seconds_sum\{[^}]*\} ([\d.]+)/)).toBeGreaterThan(0.25)
  await flow.stop()
})

test('a message split between a transactional sink and a plain one reaches both', async () => {
  const { from, to, a, group, source, kafkaSink, routesWith } = await setupRoutes()
  const [route] = routesWith({})
  const transformations = [
    { type: 'flatten', config: { field: 'rows' } },
    { type: 'router', config: { routes: [route] } },
  ]
  const flow = startFlow({ source, sink: kafkaSink(to, { exactlyOnce: 'required' }), transformations })
  const rows = (n: number) => ({ value: JSON.stringify({ n, rows: [{ to: 'main' }, { to: 'a' }] }) })
  await fill(from, [rows(0), rows(1), rows(2)])
  await waitFor('everything to be committed', async () => (await committed(group, from))[0] === 3, {
    ...limits,
    onTimeout: () => JSON.stringify(flow.progress()),
  })
  expect((await valuesOf(to)).map((value) => JSON.parse(value!))).toEqual([0, 1, 2].map((n) => ({ n, to: 'main' })))
  expect((await valuesOf(a)).map((value) => JSON.parse(value!))).toEqual([0, 1, 2].map((n) => ({ n, to: 'a' })))
  await flow.stop()
})
