// What a flow's status says while its processor works, is killed, comes back and is gone: a real processor, asked as the operator asks.
import type { Progress } from '@brokkr/contract/dataflow/progress.ts'
import { createOutbound } from '@brokkr/runtime/http-client/outbound-client.ts'
import { logLine } from '@brokkr/testing/program.ts'
import { callServers } from '@brokkr/testing/servers/owner/client.ts'
import { emptyDatabase } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, onTestFinished, test } from 'vitest'
import { kafkaSetup } from '../../processor/test-parts/kafka-setup.ts'
import { type RealProcessor, startProcessor } from '../../processor/test-parts/real-flow.ts'
import { type ObservedStatus, observedStatus, staleMs } from './observed-status.ts'
import { readProgress } from './progress.ts'

const limits = { limitMs: 180_000 }
const timeoutMs = 600_000
const kills = 3
/** So many rows wait for the processor while it is killed: it is always under load. */
const rowsAhead = 3_000
const names = ['readCount', 'processedCount', 'writtenCount', 'droppedCount', 'errorCount'] as const

/** Keeps a status up to date from what the processor of the moment says, and looks at every change. */
class Observer {
  status: ObservedStatus = { conditions: [] }
  place: string | undefined
  falls: string[] = []
  readonly #outbound = createOutbound({}, { allow: { classes: ['loopback'] }, schemes: ['http:'] })

  async look(nowMs = Date.now()): Promise<void> {
    const answers = this.place === undefined ? [] : await readProgress(this.#outbound, [this.place])
    const before = this.status
    this.status = observedStatus(before, answers, nowMs)
    for (const name of names)
      if ((this.status[name] ?? 0) < (before[name] ?? 0)) this.falls.push(`${name}: ${before[name]} → ${this.status[name]}`)
    const { processedCount = 0, droppedCount = 0, errorCount = 0, writtenCount = 0 } = this.status
    const endedWritten = processedCount - droppedCount - errorCount
    if (endedWritten < 0 || endedWritten > writtenCount) this.falls.push(JSON.stringify(this.status))
  }

  condition(type: string): object | undefined {
    return this.status.conditions.find((one) => one.type === type)
  }
}

test(
  '[D81] counters never decrease through kills; an absent processor leaves stale values',
  async () => {
    const database = await emptyDatabase()
    const client = await database.connect()
    await client.query(`create table events (id int primary key, n text, updated_at timestamptz not null default clock_timestamp());
      create table target (id int primary key, n text, updated_at timestamptz)`)
    const { errors } = await kafkaSetup()
    const table = (name: string, more: object) => ({
      type: 'postgresql',
      config: { connectionString: database.url, table: name, ...more },
    })
    const spec = {
      source: table('events', { pollInterval: 1, readBatchSize: 200, overlapSeconds: 0 }),
      sink: table('target', { upsertMode: true, exactlyOnce: 'off' }),
      errors,
      // Of ten rows one is dropped and one fails.
      transformations: [
        { type: 'filter', config: { condition: `n != 'drop'` } },
        { type: 'cast', config: { spec: { n: 'int64' } } },
      ],
      checkpointSaveInterval: '1s',
    }
    const folder = await callServers('loan.folder', { kind: 'plain' })
    const observer = new Observer()
    const start = async (): Promise<RealProcessor> => {
      const processor = await startProcessor(spec, { folder })
      observer.place = `127.0.0.1:${String((await logLine(processor, 'processor started'))['port'])}`
      return processor
    }
    const seen = async (what: string, isSo: (status: ObservedStatus) => boolean, processor: RealProcessor): Promise<void> => {
      const look = async () => {
        await observer.look()
        return isSo(observer.status)
      }
      await waitFor(what, look, { ...limits, onTimeout: () => `${JSON.stringify(observer.status)}\n${processor.logTail(20)}` })
    }

    const writer = await database.connect()
    const loading = load(
      (from, to) =>
        writer.query(`insert into events (id, n) select id, case id % 10 when 0 then 'drop' when 1 then 'x' else id::text end
          from generate_series(${from}, ${to}) id`),
      () => observer.status.processedCount ?? 0,
    )
    let processor = await start()
    for (let kill = 0; kill < kills; kill += 1) {
      const before = observer.status.processedCount ?? 0
      await seen('progress', ({ processedCount = 0 }) => processedCount > before, processor)
      await processor.kill('SIGKILL')
      processor = await start()
    }
    const rows = await loading.end()
    await seen('everything', ({ processedCount }) => (processedCount ?? 0) >= rows, processor)
    expect(observer.falls).toEqual([])
    // Counters are saved with the position they belong to: three kills neither lost nor doubled one.
    expect(observer.status).toMatchObject({ processedCount: rows, droppedCount: rows / 10, errorCount: rows / 10 })
    expect((await client.query('select count(*)::int as n from target')).rows).toEqual([{ n: (rows * 8) / 10 }])
    expect(observer.condition('Flowing')).toMatchObject({ status: 'True' })
    expect(observer.status.progress).toMatchObject({ stale: false })

    await processor.kill('SIGKILL')
    const last = observer.status
    const lastMs = Date.parse(last.progress!.observedAt)
    await observer.look(lastMs + staleMs)
    expect(observer.status).toEqual(last)
    await observer.look(lastMs + staleMs + 1)
    expect(observer.status.progress).toEqual({ ...last.progress, stale: true })
    expect(observer.condition('Flowing')).toMatchObject({ status: 'Unknown', reason: 'Stale' })
    const { progress: _progress, conditions: _conditions, ...values } = observer.status
    const { progress: _before, conditions: _then, ...lastValues } = last
    expect(values).toEqual(lastValues)
    await Promise.all([client.end(), writer.end()])
  },
  timeoutMs,
)

/** Rows in transactions of a hundred, always some thousands ahead of what was done; `end` tells how many there are. */
function load(insert: (from: number, to: number) => Promise<unknown>, done: () => number): { end(): Promise<number> } {
  const over = new AbortController()
  let rows = 0
  const loading = (async () => {
    while (!over.signal.aborted) {
      await waitFor('room for more', () => over.signal.aborted || rows - done() < rowsAhead, { ...limits, everyMs: 10 })
      await insert(rows, rows + 99)
      rows += 100
    }
    return rows
  })()
  // Told to whoever ends it.
  loading.catch(() => undefined)
  onTestFinished(() => over.abort())
  return {
    end: () => {
      over.abort()
      return loading
    },
  }
}

test('status has the counters of the most advanced processor and sums the rest', () => {
  const answer = (pod: string, processedCount: number, more: Partial<Progress> = {}): Progress => ({
    pod,
    version: '1',
    isReady: true,
    specHash: '',
    position: `t[${pod}]=1`,
    lag: { messages: 2 },
    openMessages: 0,
    openBytes: 0,
    readCount: processedCount,
    processedCount,
    writtenCount: processedCount,
    droppedCount: 0,
    errorCount: 0,
    countersSince: 'then',
    notices: [],
    flowing: { status: 'True', reason: 'Flowing', message: '' },
    exactlyOnce: { status: 'False', reason: 'AtLeastOnce', message: '' },
    ...more,
  })
  const blocked = { since: '', stage: 'sink', connector: 'kafka', errorType: 'unknown', message: 'm', position: 'p' } as const
  const inTrouble = answer('0', 3, { blocked, flowing: { status: 'False', reason: 'Blocked', message: 'm' } })
  const first = observedStatus({ conditions: [] }, [inTrouble, answer('1', 7)], 1_000)
  expect(first).toMatchObject({ processedCount: 7, position: 't[0]=1 t[1]=1', lag: { messages: 4 }, blocked, progress: { pod: '1' } })
  expect(first.conditions.find(({ type }) => type === 'Flowing')).toMatchObject({ status: 'False', reason: 'Blocked' })
  // The one that had saved last is away, the other has not heard of it; a count that began anew is another one.
  const next = observedStatus(first, [answer('0', 5)], 2_000)
  expect(next).toMatchObject({ processedCount: 7, progress: { pod: '0' } })
  expect(next.blocked).toBeUndefined()
  expect(observedStatus(next, [answer('0', 1, { countersSince: 'now' })], 3_000)).toMatchObject({ processedCount: 1 })
})
