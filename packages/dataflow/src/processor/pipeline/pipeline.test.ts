// Rules of the runtime between ends that do exactly what the test says.
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { ConnectorError, type Message } from '../../connectors/connector.ts'
import { payloadText } from '../../message/message.ts'
import { jsonMessage } from '../test-parts/scripted.ts'
import { scriptedFlow } from '../test-parts/scripted-flow.ts'

const numbered = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, at) => jsonMessage({ n: from + at }, from + at))
const recordError = (message = 'refused') => new ConnectorError({ class: 'record', type: 'constraint_violation' }, message)
const transient = () => new ConnectorError({ class: 'transient', type: 'connection_error' }, 'gone')
const errors = { type: 'kafka', config: { brokers: ['b:9092'], topic: 'dead' } }

test('a bounded flow writes all records in order, commits the last position and ends', async () => {
  const flow = scriptedFlow({ transformations: [{ type: 'filter', config: { condition: 'n != 3' } }] })
  flow.source.push({ messages: numbered(0, 9) })
  flow.source.push({ messages: numbered(10, 19) })
  flow.source.end()
  expect(await flow.done).toEqual({ exitCode: 0, reason: 'the source ended' })
  expect(flow.sink.rows).toEqual([0, 1, 2, ...Array.from({ length: 16 }, (_, at) => at + 4)].map((n) => JSON.stringify({ n })))
  expect(flow.source.committed).toEqual({ 0: 19 })
  const progress = flow.pipeline.report.progress({ pod: 'p', version: 'v', isReady: true })
  expect(progress).toMatchObject({ readCount: 20, processedCount: 20, writtenCount: 19, droppedCount: 1, errorCount: 0 })
  expect(flow.pipeline.budget.bytes).toBe(0)
  expect(flow.pipeline.budget.positions).toBe(0)
})

test('outcomes after an unwritten record are not committed', async () => {
  // 0..2 are written, 3 waits for company, 4..9 are dropped at once.
  const flow = scriptedFlow(
    {
      sink: { type: 'kafka', config: { brokers: ['b:9092'], topic: 't', batchSize: 3, batchFlushIntervalSeconds: 3600 } },
      transformations: [{ type: 'filter', config: { condition: 'n < 4' } }],
    },
    { isBounded: false },
  )
  flow.source.push({ messages: numbered(0, 9) })
  await waitFor('the first commit', () => flow.source.commits.length > 0)
  await waitFor('no more than one open message', () => flow.pipeline.inFlight.count === 1)
  expect(flow.source.committed).toEqual({ 0: 2 })
  flow.pipeline.stop()
  expect((await flow.done).exitCode).toBe(0)
  expect(flow.source.committed).toEqual({ 0: 9 })
})

test('the next full batch is prepared while one is written, and is written next', async () => {
  const gate = Promise.withResolvers<void>()
  const ready: (string | null)[][] = []
  const flow = scriptedFlow(
    { sink: { type: 'kafka', config: { brokers: ['b:9092'], topic: 't', batchSize: 3 } } },
    {
      prepare: (sinks) => {
        sinks['default']!.script = (_, call) => (call === 1 ? gate.promise : undefined)
        Object.assign(sinks['default']!, { prepare: (batch: readonly Message[]) => ready.push(batch.map(payloadText)) })
      },
    },
  )
  flow.source.push({ messages: numbered(0, 9) })
  await waitFor('the second batch to be ready', () => ready.length === 1)
  expect(flow.sink.writes).toHaveLength(1)
  gate.resolve()
  flow.source.end()
  await flow.done
  const written = flow.sink.writes.map(({ payloads }) => payloads)
  expect(written.map(({ length }) => length)).toEqual([3, 3, 3, 1])
  // A sink that answers at once may have the third before it could be made ready; what is left over at the end is no full batch.
  expect(ready).toEqual(written.slice(1, 1 + ready.length))
  expect(ready.length).toBeLessThanOrEqual(2)
})

test('a dead letter contains the changed record that the sink rejected', async () => {
  const flow = scriptedFlow(
    { errors, transformations: [{ type: 'insertField', config: { fields: { added: 'json:12345678901234567890' } } }] },
    { prepare: (sinks) => (sinks['default']!.script = () => refuse(true, recordError())) },
  )
  flow.source.push({ messages: numbered(7, 7) })
  flow.source.end()
  await flow.done
  expect(flow.errors!.rows[0]).toContain('"original_message":{"n":7,"added":12345678901234567890}')
})

test('a failed batch is retried unchanged until the sink accepts it', async () => {
  const flow = scriptedFlow({}, { prepare: (sinks) => (sinks['default']!.script = (_, call) => refuse(call <= 3, transient())) })
  flow.source.push({ messages: numbered(0, 4) })
  flow.source.end()
  await flow.done
  expect(flow.sink.rows).toHaveLength(5)
  expect(flow.sink.writes.map(({ payloads }) => payloads.length)).toEqual([5, 5, 5, 5])
})

test('rejected records of a batch become dead letters, the rest is written in order', async () => {
  const bad = new Set(['{"n":7}', '{"n":500}', '{"n":999}'])
  const flow = scriptedFlow(
    { errors },
    {
      prepare: (sinks) =>
        (sinks['default']!.script = (payloads) =>
          refuse(
            payloads.some((payload) => bad.has(payload)),
            recordError(),
          )),
    },
  )
  flow.source.push({ messages: numbered(0, 999) })
  flow.source.end()
  await flow.done
  expect(flow.sink.rows).toEqual(Array.from({ length: 1000 }, (_, n) => JSON.stringify({ n })).filter((payload) => !bad.has(payload)))
  expect(flow.sink.writes.length).toBeLessThanOrEqual(67)
  const letters = flow.errors!.rows.map((row) => JSON.parse(row) as { error: Record<string, unknown>; original_message: unknown })
  expect(letters.map(({ original_message }) => original_message)).toEqual([{ n: 7 }, { n: 500 }, { n: 999 }])
  expect(letters[0]!.error).toMatchObject({
    stage: 'sink',
    type: 'constraint_violation',
    position: 'p[0]=7',
    flow: 'ns/f',
    original_sink: 'kafka',
  })
  expect(flow.source.committed).toEqual({ 0: 999 })
  expect(flow.pipeline.report.progress({ pod: 'p', version: 'v', isReady: true })).toMatchObject({
    processedCount: 1000,
    writtenCount: 997,
    errorCount: 3,
  })
})

function refuse(isRefused: boolean, error: Error): void {
  if (isRefused) throw error
}

test('without an errors sink a rejected message blocks the flow until it is skipped', async () => {
  const transformations = [{ type: 'cast', config: { spec: { n: 'int64' } } }]
  const messages = [jsonMessage({ n: 1 }, 0), jsonMessage({ n: 'x' }, 1), jsonMessage({ n: 2 }, 2)]
  const flow = scriptedFlow({ transformations }, { isBounded: false })
  flow.source.push({ messages })
  const blocked = await waitFor('blocked', () => flow.pipeline.flowStatus.blockReasons.blocked)
  expect(blocked).toMatchObject({ stage: 'transform', position: 'p[0]=1' })
  await waitFor('the commit before it', () => flow.source.committed[0] === 0)
  flow.pipeline.stop()
  expect((await flow.done).exitCode).toBe(0)
  expect(flow.source.committed).toEqual({ 0: 0 })
  expect(flow.sink.rows).toEqual(['{"n":1}'])

  const wrong = scriptedFlow({ transformations }, { isBounded: false, oneShots: { skip: 'p[0]=0' } })
  wrong.source.push({ messages })
  await waitFor('still blocked', () => wrong.pipeline.flowStatus.blockReasons.blocked)
  wrong.pipeline.stop()
  await wrong.done

  const right = scriptedFlow({ transformations }, { oneShots: { skip: 'p[0]=1' } })
  right.source.push({ messages })
  right.source.end()
  await right.done
  expect(right.sink.rows).toEqual(['{"n":1}', '{"n":2}'])
  expect(right.source.committed).toEqual({ 0: 2 })
  expect(right.pipeline.report.progress({ pod: 'p', version: 'v', isReady: true })).toMatchObject({ droppedCount: 1, processedCount: 3 })
})
