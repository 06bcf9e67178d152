// Flows from Kafka to Kafka on a real server: endings, commits, letters, holds.
import { uniqueName } from '@brokkr/testing/servers/kafka.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { committed, fill } from '../connectors/test-parts/kafka-topics.ts'
import { createTopic, kafkaSetup, lettersOf, limitTopic, valuesOf } from './test-parts/kafka-setup.ts'
import { startFlow } from './test-parts/real-flow.ts'

const limits = { limitMs: 120_000 }
const step = (type: string, config: object, more: object = {}) => ({ type, config, ...more })
const numbered = (count: number, partition = 0) => Array.from({ length: count }, (_, n) => ({ value: JSON.stringify({ n }), partition }))

test('[D1] a filtered message is dropped with its reason and committed', async () => {
  const { from, to, group, source, sink } = await kafkaSetup()
  await fill(from, [{ value: '{"active":true}' }, { value: '{"active":false}' }])
  const flow = startFlow({ source, sink, transformations: [step('filter', { condition: 'active' })] }, { isBounded: true })
  expect((await flow.done).exitCode).toBe(0)
  expect(await valuesOf(to)).toEqual(['{"active":true}'])
  expect(await committed(group, from)).toEqual({ 0: 2 })
  expect(await flow.metrics()).toMatch(/dataflow_messages_dropped_total\{[^}]*reason="filter"[^}]*\} 1/)
  expect(flow.progress()).toMatchObject({ processedCount: 2, droppedCount: 1, writtenCount: 1 })
})

test('[D19] a payload that cannot be masked is omitted from its dead letter, or passes', async () => {
  const { from, to, dead, source, sink, errors } = await kafkaSetup()
  await fill(from, [{ value: '{"password":"hunter2' }])
  const mask = step('mask', { fields: ['password'] })
  const flow = startFlow({ source, sink, errors, transformations: [mask] }, { isBounded: true })
  await flow.done
  const [letter] = await lettersOf(dead)
  expect(letter).toMatchObject({
    error: { stage: 'transform', type: 'not_json', step: { index: 0, type: 'mask' } },
    original_message: { omitted: true },
  })
  expect(JSON.stringify(letter) + flow.logged.join('') + (await flow.metrics())).not.toContain('hunter2')
  expect(await valuesOf(to)).toEqual([])
  const other = { ...source, config: { ...source.config, consumerGroup: uniqueName('group') } }
  await startFlow({ source: other, sink, errors, transformations: [{ ...mask, onNonJson: 'pass' }] }, { isBounded: true }).done
  expect(await valuesOf(to)).toEqual(['{"password":"hunter2'])
  expect(await lettersOf(dead)).toHaveLength(1)
})

test('[D40] a value that does not convert is named by path and type, never by itself', async () => {
  const { from, dead, source, sink, errors } = await kafkaSetup()
  const payloads = [{ a: { secretword: 1 } }, { b: 'secretword' }, { c: null }, { d: '9223372036854775808' }]
  await fill(
    from,
    payloads.map((payload) => ({ value: JSON.stringify(payload) })),
  )
  const transformations = [step('cast', { spec: { a: 'string', b: 'bool', c: 'int64', d: 'int64' } })]
  const flow = startFlow({ source, sink, errors, transformations }, { isBounded: true })
  await flow.done
  const letters = await lettersOf(dead)
  expect(letters.map(({ error }) => error.message.split(':')[1]!.trim())).toEqual(['a', 'b', 'c', 'd'])
  expect(letters.map(({ error }) => error.message)).toEqual([
    expect.stringContaining('string'),
    expect.stringContaining('bool'),
    expect.stringContaining('int64'),
    expect.stringContaining('int64'),
  ])
  const shown = JSON.stringify(letters.map(({ error }) => error)) + flow.logged.join('')
  expect(shown).not.toMatch(/secretword|9223372036854775808/)
})

test('[D46] a message with two of three records written has the outcome written', async () => {
  const { from, to, group, source, sink } = await kafkaSetup()
  await fill(from, [{ value: '{"orderId":1,"items":[{"itemNo":1,"keep":true},{"itemNo":2,"keep":false},{"itemNo":3,"keep":true}]}' }])
  const transformations = [step('flatten', { field: 'items' }), step('filter', { condition: 'keep' }), { type: 'snakeCase' }]
  const flow = startFlow({ source, sink, transformations }, { isBounded: true })
  await flow.done
  expect(await valuesOf(to)).toEqual(['{"order_id":1,"item_no":1,"keep":true}', '{"order_id":1,"item_no":3,"keep":true}'])
  expect(flow.progress()).toMatchObject({ readCount: 1, processedCount: 1, writtenCount: 2, droppedCount: 0, errorCount: 0 })
  expect(await committed(group, from)).toEqual({ 0: 1 })
})

test('[D60] endings behind a record that waits for its batch are not committed', async () => {
  const { from, to, group, source, kafkaSink } = await kafkaSetup()
  await fill(from, numbered(10))
  const flow = startFlow({
    source,
    sink: kafkaSink(to, { batchSize: 3, batchFlushIntervalSeconds: 3600 }),
    transformations: [step('filter', { condition: 'n < 4' })],
  })
  await waitFor('all but one to have ended', () => flow.progress().readCount === 10 && flow.progress().openMessages === 1, limits)
  await waitFor('the commit of what lies before it', async () => (await committed(group, from))[0] === 3, limits)
  // Two more rounds of the committer change nothing.
  const commits = () =>
    flow
      .metrics()
      .then((text) => Number(/dataflow_task_operations_total\{[^}]*operation="commit",status="success"\} (\d+)/.exec(text)?.[1]))
  expect(await commits()).toBe(1)
  expect(await valuesOf(to)).toHaveLength(3)
  expect((await flow.stop()).exitCode).toBe(0)
  expect(await committed(group, from)).toEqual({ 0: 10 })
})

test('[D61] a message with two records is in flight until both are acknowledged', async () => {
  const { broker, from, to, group, source, sink, kafkaSink } = await kafkaSetup()
  const narrow = uniqueName('narrow')
  await createTopic(broker, narrow)
  await limitTopic(broker, narrow, 200)
  await fill(from, [{ value: JSON.stringify({ items: [{ n: 1 }, { n: 2, pad: 'x'.repeat(500) }] }) }])
  const routes = [{ name: 'narrow', condition: 'n == 2', sink: kafkaSink(narrow, { compression: 'none' }) }]
  const flow = startFlow({ source, sink, transformations: [step('flatten', { field: 'items' }), step('router', { routes })] })
  await waitFor('the second record to be refused', () => flow.progress().blocked, limits)
  await waitFor('the first record', async () => (await valuesOf(to)).length === 1, limits)
  expect(flow.progress()).toMatchObject({ openMessages: 1, processedCount: 0, writtenCount: 1 })
  expect((await committed(group, from))[0] ?? 0).toBe(0)
  await limitTopic(broker, narrow, 100_000)
  await waitFor('the commit', async () => (await committed(group, from))[0] === 1, limits)
  expect(await valuesOf(narrow)).toHaveLength(1)
  expect(flow.progress()).toMatchObject({ openMessages: 0, processedCount: 1, writtenCount: 2 })
  await flow.stop()
})

test('[D62] four workers write twenty messages in the order in which they were read', async () => {
  const { from, to, source, sink } = await kafkaSetup()
  // Every third one costs a thousand times what its neighbours do.
  const values = Array.from({ length: 20 }, (_, n) =>
    JSON.stringify({ n, pad: n % 3 === 0 ? Array.from({ length: 2000 }, (_one, at) => ({ someKey: at })) : [] }),
  )
  await fill(
    from,
    values.map((value) => ({ value })),
  )
  const transformations = [step('snakeCase', { deep: true }), step('select', { fields: ['n'] })]
  const flow = startFlow({ source, sink, transformations, transformWorkers: 4 }, { isBounded: true })
  await flow.done
  expect(await valuesOf(to)).toEqual(values.map((_, n) => JSON.stringify({ n })))
})

test('[D65] a dead letter is acknowledged before its message is committed', async () => {
  const { from, to, dead, group, source, sink, errors } = await kafkaSetup()
  await fill(from, [{ value: '{"n":1}' }, { value: '{"n":"x"}' }, { value: '{"n":3}' }, { value: '{"n":0}' }])
  const transformations = [step('cast', { spec: { n: 'int64' } }), step('filter', { condition: 'n' })]
  const flow = startFlow({ source, sink, errors, transformations }, { isBounded: true })
  await flow.done
  const letters = await lettersOf(dead)
  expect(letters).toMatchObject([
    { error: { stage: 'transform', position: `${from}[0]=1`, attempts: 1, flow: 'test/flow' }, original_message: { n: 'x' } },
  ])
  expect(await valuesOf(to)).toEqual(['{"n":1}', '{"n":3}'])
  expect(await committed(group, from)).toEqual({ 0: 4 })
  const { processedCount, writtenCount, droppedCount, errorCount } = flow.progress()
  expect({ processedCount, writtenCount, droppedCount, errorCount }).toEqual({
    processedCount: 4,
    writtenCount: 2,
    droppedCount: 1,
    errorCount: 1,
  })
})

test('[D66] without an errors sink a message blocks the flow until its position is skipped', async () => {
  const { from, to, group, source, sink } = await kafkaSetup()
  await fill(from, [{ value: '{"n":1}' }, { value: '{"n":"x"}' }, { value: '{"n":3}' }])
  const spec = { source, sink, transformations: [step('cast', { spec: { n: 'int64' } })] }
  const flow = startFlow(spec)
  const blocked = await waitFor('blocked', () => flow.progress().blocked, limits)
  expect(blocked).toMatchObject({ stage: 'transform', position: `${from}[0]=1`, message: expect.stringContaining('cast: n') as string })
  await waitFor('the commit before it', async () => (await committed(group, from))[0] === 1, limits)
  expect(flow.progress().flowing).toMatchObject({ status: 'False', reason: 'Blocked' })
  await flow.stop()
  expect(await valuesOf(to)).toEqual(['{"n":1}'])

  const wrong = startFlow(spec, { oneShots: { skip: `${from}[0]=2` } })
  await waitFor('blocked again', () => wrong.progress().blocked, limits)
  await wrong.stop()
  expect(await committed(group, from)).toEqual({ 0: 1 })

  const right = startFlow(spec, { oneShots: { skip: blocked.position }, isBounded: true })
  await right.done
  expect(await valuesOf(to)).toEqual(['{"n":1}', '{"n":3}'])
  expect(await committed(group, from)).toEqual({ 0: 3 })
  expect(right.progress()).toMatchObject({ droppedCount: 1, processedCount: 2 })
  expect(await right.metrics()).toMatch(/dataflow_messages_dropped_total\{[^}]*reason="skipped"[^}]*\} 1/)
})

test('[D77] a too large message is dead-lettered; the 1001st consecutive failure blocks the flow', async () => {
  const { from, to, dead, group, source, sink, errors } = await kafkaSetup()
  await fill(from, [{ value: JSON.stringify({ n: 1, pad: 'x'.repeat(5000) }) }, { value: '{"n":2}' }])
  await fill(
    from,
    Array.from({ length: 1002 }, () => ({ value: '{"n":"x"}' })),
  )
  const flow = startFlow({ source, sink, errors, maxMessageBytes: '1000', transformations: [step('cast', { spec: { n: 'int64' } })] })
  const blocked = await waitFor('blocked', () => flow.progress().blocked, limits)
  expect(blocked).toMatchObject({ position: `${from}[0]=1002`, message: expect.stringContaining('1000 dead letters in a row') as string })
  await waitFor('the commit before it', async () => (await committed(group, from))[0] === 1002, limits)
  await flow.stop()
  const letters = await lettersOf(dead)
  expect(letters).toHaveLength(1001)
  expect(letters.filter(({ error }) => error.type === 'too_large')).toMatchObject([
    { original_message: { omitted: true }, error: { position: `${from}[0]=0` } },
  ])
  expect(await valuesOf(to)).toEqual(['{"n":2}'])
})
