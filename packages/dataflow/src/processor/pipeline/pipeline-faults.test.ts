// What the pipeline does about trouble, between ends that do exactly what the test says.
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { ConnectorError, type ErrorClass } from '../../connectors/connector.ts'
import { jsonMessage, type ScriptedSink } from '../test-parts/scripted.ts'
import { scriptedFlow } from '../test-parts/scripted-flow.ts'

const numbered = (from: number, to: number, partition = 0) =>
  Array.from({ length: to - from + 1 }, (_, at) => jsonMessage({ n: from + at }, from + at, partition))
const failure = (kind: ErrorClass) => new ConnectorError({ class: kind, type: 'unknown' }, `${kind} trouble`)
const kafka = (topic: string, more = {}) => ({ type: 'kafka', config: { brokers: ['b:9092'], topic, ...more } })
const errors = kafka('dead')
const cast = [{ type: 'cast', config: { spec: { n: 'int64' } } }]
const refuses =
  (isBad: (payload: string) => boolean, kind: ErrorClass = 'record') =>
  (payloads: readonly string[]): void => {
    if (payloads.some(isBad)) throw failure(kind)
  }
const about = { pod: 'p', version: 'v' }

test('too many consecutive dead letters block the flow until a message succeeds', async () => {
  const flow = scriptedFlow({ transformations: cast, errors: { ...errors, maxConsecutive: 3 } }, { isBounded: false })
  flow.source.push({ messages: [0, 1, 2, 3, 4].map((at) => jsonMessage({ n: 'x' }, at)) })
  const blocked = await waitFor('blocked', () => flow.pipeline.flowStatus.blockReasons.blocked)
  expect(blocked).toMatchObject({
    stage: 'transform',
    position: 'p[0]=3',
    message: expect.stringContaining('3 dead letters in a row') as string,
  })
  await waitFor('three letters', () => flow.errors!.rows.length === 3)
  await waitFor('their commit', () => flow.source.committed[0] === 2)
  flow.pipeline.stop()
  await flow.done
  expect(flow.errors!.rows).toHaveLength(3)
})

test('a transformed message resets the count of consecutive dead letters', async () => {
  const flow = scriptedFlow({ transformations: cast, errors: { ...errors, maxConsecutive: 2 } })
  flow.source.push({ messages: ['x', 'x', 1, 'x', 'x', 2].map((n, at) => jsonMessage({ n }, at)) })
  flow.source.end()
  await flow.done
  expect(flow.errors!.rows).toHaveLength(4)
  expect(flow.sink.rows).toHaveLength(2)
})

test('ackPolicy never leaves the message in flight after its dead letter', async () => {
  const flow = scriptedFlow(
    { errors: { ...errors, ackPolicy: 'never' } },
    { isBounded: false, prepare: (sinks) => (sinks['default']!.script = refuses((payload) => payload === '{"n":1}')) },
  )
  flow.source.push({ messages: numbered(0, 3) })
  await waitFor('everything else', () => flow.sink.rows.length === 3)
  await waitFor('the letter', () => flow.errors!.rows.length === 1)
  expect(flow.pipeline.progress(about).flowing.message).toContain('1 dead-lettered messages stay open')
  flow.pipeline.stop()
  await flow.done
  expect(flow.source.committed).toEqual({ 0: 0 })
})

test('ackPolicy afterMainSinkSuccess writes one dead letter and retries the record', async () => {
  let isMended = false
  const flow = scriptedFlow(
    { errors: { ...errors, ackPolicy: 'afterMainSinkSuccess' } },
    { prepare: (sinks) => (sinks['default']!.script = refuses((payload) => !isMended && payload === '{"n":1}')) },
  )
  flow.source.push({ messages: numbered(0, 3) })
  flow.source.end()
  await waitFor('several tries', () => flow.sink.writes.filter(({ payloads }) => payloads.length === 1).length > 4)
  expect(flow.errors!.rows).toHaveLength(1)
  isMended = true
  await flow.done
  expect(flow.sink.rows).toEqual(numbered(0, 3).map((_, n) => JSON.stringify({ n })))
  expect(flow.errors!.rows).toHaveLength(1)
  expect(flow.pipeline.progress(about)).toMatchObject({ errorCount: 0, processedCount: 4 })
  expect(flow.pipeline.flowStatus.blockReasons.blocked).toBeUndefined()
})

test('an unknown error is retried five times, then bisected into dead letters', async () => {
  const flow = scriptedFlow(
    { errors },
    { prepare: (sinks) => (sinks['default']!.script = refuses((payload) => payload === '{"n":2}', 'unknown')) },
  )
  flow.source.push({ messages: numbered(0, 3) })
  flow.source.end()
  await flow.done
  expect(flow.sink.writes.slice(0, 5).every(({ payloads }) => payloads.length === 4)).toBe(true)
  expect(flow.sink.rows).toHaveLength(3)
  expect(flow.errors!.rows).toHaveLength(1)
})

test('an unknown error of every record is retried without dead letters', async () => {
  let isBroken = true
  const flow = scriptedFlow({ errors }, { prepare: (sinks) => (sinks['default']!.script = refuses(() => isBroken, 'unknown')) })
  flow.source.push({ messages: numbered(0, 3) })
  flow.source.end()
  await waitFor('blocked', () => flow.pipeline.flowStatus.blockReasons.blocked)
  expect(flow.errors!.rows).toHaveLength(0)
  isBroken = false
  await flow.done
  expect(flow.sink.rows).toHaveLength(4)
  expect(flow.errors!.rows).toHaveLength(0)
})

test.each(['transient', 'config'] as const)('%s trouble is tried again for ever and never dead-lettered', async (kind) => {
  let isBroken = true
  const flow = scriptedFlow({ errors }, { prepare: (sinks) => (sinks['default']!.script = refuses(() => isBroken, kind)) })
  flow.source.push({ messages: numbered(0, 3) })
  flow.source.end()
  await waitFor('unavailable', () => flow.sink.writes.length > 8 && flow.pipeline.progress(about).flowing.reason !== 'Flowing')
  const { flowing } = flow.pipeline.progress(about)
  expect(flowing).toMatchObject({ status: 'False', reason: kind === 'config' ? 'Blocked' : 'SinkUnavailable' })
  isBroken = false
  await flow.done
  expect(flow.sink.rows).toHaveLength(4)
  expect(flow.errors!.rows).toHaveLength(0)
})

test('exhausted retries end the process as failed, a fence as fenced', async () => {
  const failed = scriptedFlow(
    {},
    { settings: { sinkRetriesMax: 2 }, prepare: (sinks) => (sinks['default']!.script = refuses(() => true, 'transient')) },
  )
  failed.source.push({ messages: numbered(0, 1) })
  expect((await failed.done).exitCode).toBe(1)
  expect(failed.sink.writes).toHaveLength(3)
  const fenced = scriptedFlow({}, { prepare: (sinks) => (sinks['default']!.script = refuses(() => true, 'fenced')) })
  fenced.source.push({ messages: numbered(0, 1) })
  expect((await fenced.done).exitCode).toBe(3)
  expect(fenced.source.committed).toEqual({})
})

test('a failing errors sink stops commits after the dead letter until it recovers', async () => {
  let isDown = true
  const flow = scriptedFlow(
    { errors },
    {
      isBounded: false,
      prepare: (sinks) => {
        sinks['default']!.script = refuses((payload) => payload === '{"n":1}')
        sinks['errors']!.script = refuses(() => isDown, 'transient')
      },
    },
  )
  flow.source.push({ messages: numbered(0, 3) })
  await waitFor('tries of the letter', () => flow.errors!.writes.length > 3)
  expect(flow.source.committed).toEqual({ 0: 0 })
  isDown = false
  await waitFor('the commit', () => flow.source.committed[0] === 3)
  expect(flow.errors!.rows).toHaveLength(1)
  flow.pipeline.stop()
  await flow.done
})

test('a dead letter that the errors sink rejects is sent without its payload', async () => {
  const flow = scriptedFlow(
    { errors },
    {
      prepare: (sinks) => {
        sinks['default']!.script = refuses((payload) => payload === '{"n":1}')
        sinks['errors']!.script = refuses((payload) => payload.includes('"n":1'))
      },
    },
  )
  flow.source.push({ messages: numbered(0, 3) })
  flow.source.end()
  await flow.done
  expect(JSON.parse(flow.errors!.rows[0]!)).toMatchObject({ original_message: { omitted: true }, error: { stage: 'sink' } })
})

test("records below the sink's position are skipped; dead letters precede later positions", async () => {
  const letters: number[] = []
  const keepsPositions = (sinks: Record<string, ScriptedSink>) => {
    const sink = sinks['default']!
    sink.capabilities = { exactlyOnce: 'PositionInSink', isUpsert: false }
    sink.marks.set(0, 3)
    sink.script = refuses((payload) => payload === '{"n":6}')
    sinks['errors']!.script = () => void letters.push(Number(sink.marks.get(0)))
  }
  const flow = scriptedFlow({ errors, sink: kafka('t', { batchSize: 4 }) }, { prepare: keepsPositions })
  flow.source.push({ messages: numbered(0, 11) })
  flow.source.end()
  await flow.done
  expect(flow.sink.rows).toEqual([4, 5, 7, 8, 9, 10, 11].map((n) => JSON.stringify({ n })))
  expect(letters).toEqual([5])
  expect(flow.sink.marks.get(0)).toBe(11)
  expect(flow.pipeline.progress(about)).toMatchObject({ writtenCount: 7, processedCount: 12, errorCount: 1 })
  expect(await flow.metrics.text()).toMatch(/dataflow_duplicates_avoided_total\{[^}]*\} 4/)
})

test('an unavailable route blocks commits, others run until the budget is spent', async () => {
  const spec = {
    maxInFlightBytes: '1Mi',
    transformations: [{ type: 'router', config: { routes: [{ name: 'a', condition: 'n == 0', sink: kafka('a') }] } }],
  }
  let isDown = true
  const flow = scriptedFlow(spec, { isBounded: false, prepare: (sinks) => (sinks['a']!.script = refuses(() => isDown, 'transient')) })
  for (let at = 0; at < 5000; at += 100) flow.source.push({ messages: numbered(at, at + 99) })
  await waitFor('all the others', () => flow.sink.rows.length === 4999)
  expect(flow.source.committed).toEqual({})
  isDown = false
  await waitFor('the commit', () => flow.source.committed[0] === 4999)
  flow.pipeline.stop()
  await flow.done
})

test('a route that fails for too long dead-letters its records without slowing others', async () => {
  const routes = [{ name: 'a', condition: 'n < 3', sink: kafka('a'), onUnavailable: 'deadLetter', after: '50ms' }]
  const flow = scriptedFlow(
    { errors, transformations: [{ type: 'router', config: { routes } }] },
    { prepare: (sinks) => (sinks['a']!.script = refuses(() => true, 'transient')) },
  )
  flow.source.push({ messages: numbered(0, 99) })
  flow.source.end()
  await flow.done
  expect(flow.sink.rows).toHaveLength(97)
  expect(flow.errors!.rows).toHaveLength(3)
  expect(flow.source.committed).toEqual({ 0: 99 })
})

test('a stop during a sink outage ends at once without commits', async () => {
  const flow = scriptedFlow({}, { isBounded: false, prepare: (sinks) => (sinks['default']!.script = refuses(() => true, 'transient')) })
  flow.source.push({ messages: numbered(0, 9) })
  await waitFor('a try', () => flow.sink.writes.length > 2)
  flow.pipeline.stop()
  expect((await flow.done).exitCode).toBe(0)
  expect(flow.source.committed).toEqual({})
})

test('a stop waits for the current flush and the queued records', async () => {
  const release = Promise.withResolvers<void>()
  const flow = scriptedFlow(
    { sink: kafka('t', { batchSize: 5, batchFlushIntervalSeconds: 3600 }) },
    { isBounded: false, prepare: (sinks) => (sinks['default']!.script = (_, call) => (call === 1 ? release.promise : undefined)) },
  )
  flow.source.push({ messages: numbered(0, 7) })
  await waitFor('the flush under way', () => flow.sink.writes.length === 1)
  flow.pipeline.stop()
  release.resolve()
  expect((await flow.done).exitCode).toBe(0)
  expect(flow.sink.writes.map(({ payloads }) => payloads.length)).toEqual([5, 3])
  expect(flow.source.committed).toEqual({ 0: 7 })
})

test('a spent budget stops reading, passes its bound by one read at most, and frees it again', async () => {
  let isDown = true
  const flow = scriptedFlow(
    { maxInFlightBytes: '1Mi' },
    { isBounded: false, prepare: (sinks) => (sinks['default']!.script = refuses(() => isDown, 'transient')) },
  )
  const big = (at: number) => jsonMessage({ n: at, pad: 'x'.repeat(50_000) }, at)
  for (let at = 0; at < 100; at += 1) flow.source.push({ messages: [big(at)] })
  await waitFor('the budget to be spent', () => flow.pipeline.budget.isSpent)
  const { bytes, limitBytes } = flow.pipeline.budget
  expect(bytes).toBeLessThanOrEqual(limitBytes + 60_000)
  expect(flow.source.reads).toBeLessThan(30)
  expect(flow.pipeline.notAlive).toBeNull()
  isDown = false
  await waitFor('the commit', () => flow.source.committed[0] === 99)
  expect(flow.sink.rows).toHaveLength(100)
  flow.pipeline.stop()
  await flow.done
})

test('revoked partitions commit their prefix and ignore later outcomes', async () => {
  const release = Promise.withResolvers<void>()
  const flow = scriptedFlow(
    {},
    {
      isBounded: false,
      settings: { revokeMs: 50 },
      prepare: (sinks) => (sinks['default']!.script = (_, call) => (call === 2 ? release.promise : undefined)),
    },
  )
  flow.source.push({ messages: [...numbered(0, 4, 0), ...numbered(0, 4, 1)] })
  await waitFor('the first batch', () => flow.source.committed[1] === 4)
  flow.source.push({ messages: [...numbered(5, 9, 0), ...numbered(5, 9, 1)] })
  await waitFor('the second write', () => flow.sink.writes.length === 2)
  await flow.source.context!.revoked([1])
  release.resolve()
  await waitFor('the rest', () => flow.source.committed[0] === 9)
  expect(flow.source.committed).toEqual({ 0: 9, 1: 4 })
  expect(flow.pipeline.budget.bytes).toBe(0)
  flow.pipeline.stop()
  await flow.done
})

test('a message above maxMessageBytes becomes a dead letter without its payload', async () => {
  const flow = scriptedFlow({ errors, maxMessageBytes: '100' })
  flow.source.push({ messages: [jsonMessage({ pad: 'x'.repeat(200) }, 0), jsonMessage({ n: 1 }, 1)] })
  flow.source.end()
  await flow.done
  expect(JSON.parse(flow.errors!.rows[0]!)).toMatchObject({
    error: { type: 'too_large', stage: 'source' },
    original_message: { omitted: true },
  })
  expect(flow.sink.rows).toEqual(['{"n":1}'])
})

test('a message that the source emits twice is processed once', async () => {
  const flow = scriptedFlow({})
  flow.source.push({ messages: numbered(0, 5) })
  flow.source.push({ messages: numbered(3, 8) })
  flow.source.end()
  await flow.done
  expect(flow.sink.rows).toHaveLength(9)
})

test.each([2, 4])('%i workers keep the order of messages whatever each costs', async (transformWorkers) => {
  const transformations = [
    { type: 'flatten', config: { field: 'entries' } },
    { type: 'snakeCase', config: { deep: true } },
    { type: 'filter', config: { condition: 'keep' } },
  ]
  const sizes = Array.from({ length: 1000 }, (_, at) => (at % 97 === 0 ? 200 : at % 3))
  const messages = sizes.map((count, at) =>
    jsonMessage(
      { big: { rawId: at }, entries: Array.from({ length: count }, (_, index) => ({ itemNo: index, keep: index % 5 !== 4 })) },
      at,
    ),
  )
  const run = async (workers: number) => {
    const flow = scriptedFlow({ transformations, transformWorkers: workers })
    flow.source.push({ messages: messages.slice(0, 700) })
    flow.source.push({ messages: messages.slice(700) })
    flow.source.end()
    expect((await flow.done).exitCode).toBe(0)
    return flow
  }
  const [inline, threads] = [await run(1), await run(transformWorkers)]
  expect(threads.sink.rows).toEqual(inline.sink.rows)
  expect(threads.source.committed).toEqual({ 0: 999 })
  expect(threads.pipeline.progress(about)).toMatchObject({
    processedCount: 1000,
    droppedCount: inline.pipeline.progress(about).droppedCount,
  })
})

test('leading records that a failed write made durable are not written again', async () => {
  const flow = scriptedFlow(
    { errors },
    {
      prepare: (sinks) => {
        const sink = sinks['default']!
        sink.script = (payloads, call) => {
          if (call > 2) return
          // Two statements of the batch succeed; then the connection is lost, and later a record of the third is bad.
          sink.rows.push(...payloads.slice(0, 2))
          const kind = call === 1 ? ('transient' as const) : ('record' as const)
          throw new ConnectorError({ class: kind, type: 'unknown', durableRecords: 2, recordIndex: call === 1 ? undefined : 3 }, 'trouble')
        }
      },
    },
  )
  flow.source.push({ messages: numbered(0, 9) })
  flow.source.end()
  await flow.done
  const calls = flow.sink.writes.map(({ payloads }) => payloads.map((text) => (JSON.parse(text!) as { n: number }).n))
  expect(calls).toEqual([[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [2, 3, 4, 5, 6, 7, 8, 9], [4], [5], [6, 7, 8, 9]])
  expect(flow.sink.rows.map((text) => (JSON.parse(text) as { n: number }).n)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
  expect(flow.source.committed).toEqual({ 0: 9 })
})

test('a flush may take as long as its sink grants the server', async () => {
  const flow = scriptedFlow(
    {},
    {
      settings: { flushMs: 20 },
      prepare: (sinks) => {
        Object.assign(sinks['default']!, { writeTimeoutMs: 1 })
        sinks['default']!.script = () => new Promise((resolve) => setTimeout(resolve, 150))
      },
    },
  )
  flow.source.push({ messages: numbered(0, 1) })
  flow.source.end()
  expect((await flow.done).exitCode).toBe(0)
  expect(flow.sink.writes).toHaveLength(1)
})
