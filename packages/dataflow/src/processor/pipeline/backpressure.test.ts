// What a flow does when nothing more can be read before something is written, and how it reports that nothing is written.
import { systemClock } from '@brokkr/runtime/clock.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { ConnectorError } from '../../connectors/connector.ts'
import { findStall, type StallInputs } from '../status/flow-conditions.ts'
import { jsonMessage } from '../test-parts/scripted.ts'
import { scriptedFlow } from '../test-parts/scripted-flow.ts'

const kafka = (topic: string, more = {}) => ({ type: 'kafka', config: { brokers: ['b:9092'], topic, ...more } })
const about = { pod: 'p', version: 'v' }
const pad = 'x'.repeat(64 << 10)

test('batches of twelve routes are flushed when the budget is spent', async () => {
  const sinkOf = (topic: string) => kafka(topic, { batchSize: 10_000, batchBytes: '4Mi', batchFlushIntervalSeconds: 0 })
  const routes = Array.from({ length: 12 }, (_, at) => ({ name: `r${at}`, condition: `r == ${at}`, sink: sinkOf(`r${at}`) }))
  const flow = scriptedFlow({ sink: sinkOf('main'), transformations: [{ type: 'router', config: { routes } }] })
  for (let at = 0; at < 720; at += 1) flow.source.push({ messages: [jsonMessage({ r: at % 12, pad }, at)] })
  flow.source.end()
  expect((await flow.done).exitCode).toBe(0)
  expect(flow.source.committed).toEqual({ 0: 719 })
  for (const { name } of routes) expect(flow.sinks[name]!.rows).toHaveLength(60)
})

test('a transaction waits for the record of its message that another sink writes', async () => {
  const written = Promise.withResolvers<void>()
  const routes = [{ name: 'a', condition: 'n == 1', sink: kafka('a') }]
  const flow = scriptedFlow(
    {
      transformations: [
        { type: 'flatten', config: { field: 'row' } },
        { type: 'router', config: { routes } },
      ],
    },
    {
      prepare: (sinks) => {
        sinks['default']!.capabilities = { exactlyOnce: 'Transactions', isUpsert: false }
        sinks['a']!.script = () => written.promise
      },
    },
  )
  flow.source.push({ messages: [jsonMessage({ row: [{ n: 0 }, { n: 1 }] }, 0)] })
  await waitFor('the other sink to be asked', () => flow.sinks['a']!.writes.length === 1)
  expect(flow.sink.writes).toHaveLength(0)
  written.resolve()
  await waitFor('the transaction', () => flow.sink.writes.length === 1)
  expect(flow.sink.writes[0]!.positions).toEqual({ 0: 0 })
  flow.source.end()
  await flow.done
})

test('a failed commit per message is retried before the next write', async () => {
  const flow = scriptedFlow({ ackGranularity: 'message' }, { settings: { commitEveryMs: 3_600_000 } })
  const { source } = flow
  const commit = source.commit.bind(source)
  let failures = 0
  source.commit = (upTo) => {
    if (upTo.get(0) !== 1 || failures === 3) return commit(upTo)
    failures += 1
    expect(flow.sink.rows).toHaveLength(2)
    return Promise.reject(new ConnectorError({ class: 'transient', type: 'timeout' }, 'the group coordinator does not answer'))
  }
  source.push({ messages: [0, 1, 2].map((n) => jsonMessage({ n }, n)) })
  await waitFor('everything to be committed', () => source.committed[0] === 2)
  expect(failures).toBe(3)
  expect(flow.pipeline.progress(about).flowing.status).toBe('True')
  source.end()
  expect((await flow.done).exitCode).toBe(0)
  expect(source.commits.map((each) => each.get(0))).toEqual([0, 1, 2])
})

test('a write without an answer is reported as stalled until it is acknowledged', async () => {
  const answer = Promise.withResolvers<void>()
  const flow = scriptedFlow(
    {},
    { isBounded: false, settings: { stalledAfterMs: 50 }, prepare: (sinks) => (sinks['default']!.script = () => answer.promise) },
  )
  flow.source.push({ messages: [jsonMessage({ n: 1 }, 0)] })
  await waitFor('the stall', () => flow.pipeline.progress(about).flowing.reason === 'Stalled')
  expect(flow.pipeline.progress(about).flowing).toEqual({
    status: 'False',
    reason: 'Stalled',
    message: expect.stringContaining('sink default has acknowledged no record of its batch for') as string,
  })
  answer.resolve()
  await waitFor('its end', () => flow.pipeline.progress(about).flowing.reason === 'Idle')
  flow.pipeline.stop()
  await flow.done
})

test('a message of many records that a slow sink writes one by one is not reported as stalled', async () => {
  const reasons = new Set<string>()
  const records = 150
  const flow = scriptedFlow(
    {
      sink: kafka('t', { batchSize: 1 }),
      channelBufferSize: 1,
      transformations: [{ type: 'flatten', config: { field: 'row' } }],
    },
    {
      settings: { stalledAfterMs: 1_000 },
      prepare: (sinks) =>
        (sinks['default']!.script = async () => {
          reasons.add(flow.pipeline.progress(about).flowing.reason)
          await systemClock.sleep(10)
        }),
    },
  )
  flow.source.push({ messages: [jsonMessage({ row: Array.from({ length: records }, (_, n) => ({ n })) }, 0)] })
  flow.source.end()
  expect((await flow.done).exitCode).toBe(0)
  expect(flow.sink.rows).toHaveLength(records)
  expect([...reasons]).toEqual(['Flowing'])
})

test('a batch that waits for its timer is not reported as stalled', async () => {
  const flow = scriptedFlow(
    { sink: kafka('t', { batchSize: 5, batchFlushIntervalSeconds: 3600 }) },
    { isBounded: false, settings: { stalledAfterMs: 1 } },
  )
  flow.source.push({ messages: [jsonMessage({ n: 1 }, 0)] })
  await waitFor('the message to wait', () => flow.pipeline.progress(about).openMessages === 1)
  const startedMs = performance.now()
  await waitFor('the bound to pass', () => performance.now() - startedMs > 20)
  expect(flow.pipeline.progress(about).flowing).toMatchObject({ status: 'True', reason: 'Flowing' })
  flow.pipeline.stop()
  await flow.done
})

const facts: StallInputs = { nowMs: 1000, stalledAfterMs: 100, inputWaitsSinceMs: undefined, lastOutputMs: 0, sinks: [] }
test.each([
  ['no input waits', {}, undefined],
  ['input waits and nothing ended since', { inputWaitsSinceMs: 900 }, 'input waits'],
  ['input has waited for less than the bound', { inputWaitsSinceMs: 901 }, undefined],
  ['a message ended meanwhile', { inputWaitsSinceMs: 500, lastOutputMs: 950 }, undefined],
  ['no sink writes', { sinks: [{ name: 'a', writingSinceMs: undefined }] }, undefined],
  ['a sink has written for less than the bound', { sinks: [{ name: 'a', writingSinceMs: 950 }] }, undefined],
  ['a sink gives no answer while others go on', { lastOutputMs: 999, sinks: [{ name: 'a', writingSinceMs: 800 }] }, 'sink a '],
] as const)('a stall is judged: %s', (_case, changes, text) => {
  const found = findStall({ ...facts, ...changes })
  if (text === undefined) expect(found).toBeUndefined()
  else expect(found).toContain(text)
})
