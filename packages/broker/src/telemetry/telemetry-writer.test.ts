// The writer of telemetry on a real database: what is stored when it closes, and the bound on gaps.
import { randomUUID } from 'node:crypto'
import type { PodLogLine } from '@brokkr/contract/telemetry/telemetry.ts'
import { openDatabase, type Sql } from '@brokkr/postgres'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { silentLog } from '@brokkr/runtime/logging/log.ts'
import { startTestBroker, type TestBroker } from '@brokkr/testing/broker.ts'
import { runSql } from '@brokkr/testing/run-sql.ts'
import { beforeAll, expect, test } from 'vitest'
import { createSocketWorld } from '../live/socket-world.fixture.ts'
import { createSeal } from '../seal.ts'
import type { TelemetryItem } from './rules.ts'
import { createTelemetryWriter, type TelemetryWriter } from './telemetry-writer.ts'

let broker: TestBroker
let sql: Sql
beforeAll(async () => {
  broker = await startTestBroker()
  const database = openDatabase({ url: broker.databaseUrl, schema: 'public', poolSize: 2 })
  sql = database
  return () => Promise.all([broker.kill(), database.close()])
})

/** A writer with an hour between flushes, what it stores and how many items it drops by reason. */
function setup(perAgentMax: number): { writer: TelemetryWriter; stored: TelemetryItem[]; dropped: Record<string, number> } {
  const stored: TelemetryItem[] = []
  const dropped: Record<string, number> = {}
  const seal = createSeal([Buffer.from(broker.encryptionKey, 'hex')])
  const writer = createTelemetryWriter(
    { sql, seal, clock: systemClock, log: silentLog },
    {
      batchRows: 5,
      flushMs: 3_600_000,
      perAgentMax,
      totalMax: 10_000,
      onStored: ({ items }) => void stored.push(...items),
      onDropped: (reason, count) => void (dropped[reason] = (dropped[reason] ?? 0) + count),
    },
  )
  return { writer, stored, dropped }
}

const toItem = (body: PodLogLine): TelemetryItem => ({ is: 'pod_log_line', body })

test('closing stores every queued item and announces the loss of a batch that failed before', async () => {
  const { line, stack } = await createSocketWorld(broker)
  const { writer, stored, dropped } = setup(100)
  const ts = '2026-01-02T03:04:06.000000Z'
  // The database refuses the first time, and with it the first batch.
  for (let n = 0; n < 17; n += 1) writer.add(toItem(line(String(n), { ts: n === 0 ? 'never' : ts })))
  await writer.close()
  expect(dropped).toEqual({ not_stored: 5 })
  const lines = stored.flatMap(({ is, body }) => (is === 'pod_log_line' ? [body.line] : []))
  expect(lines).toEqual(Array.from({ length: 12 }, (_, n) => String(n + 5)))
  expect(stored.flatMap(({ is, body }) => (is === 'log_gap' ? [body.dropped_count] : []))).toEqual([5])
  const rows = await runSql(broker.databaseUrl, 'select count(*)::int as count from agent_pod_logs where stack_id = $1', [stack.id])
  expect(rows).toEqual([{ count: 12 }])
})

test('an agent that names many stacks has a bounded number of gaps', async () => {
  const { line } = await createSocketWorld(broker)
  const { writer, stored, dropped } = setup(0)
  writer.add(toItem(line('dropped')))
  for (let n = 0; n < 1000; n += 1) writer.add(toItem(line('dropped', { stack_id: randomUUID() })))
  writer.add(toItem(line('dropped')))
  await writer.close()
  // Of the 256 gaps, only that of the stack that targets the agent is announced.
  expect(dropped).toEqual({ lane_full: 1002, not_targeted: 255 })
  expect(stored).toMatchObject([{ is: 'log_gap', body: { dropped_count: 2 } }])
})

test('a gap that finds no place counts as the lines that it announces', async () => {
  const { line } = await createSocketWorld(broker)
  const { writer, stored, dropped } = setup(0)
  const { agent_id, stack_id, ts } = line('x')
  writer.add({ is: 'log_gap', body: { agent_id, stack_id, since_ts: ts, dropped_count: 40, reason: 'rate_limit' } })
  writer.add(toItem(line('dropped')))
  await writer.close()
  expect(dropped).toEqual({ lane_full: 41 })
  expect(stored).toMatchObject([{ is: 'log_gap', body: { dropped_count: 41 } }])
})

test('an item that comes after the end is counted as not stored', async () => {
  const { line } = await createSocketWorld(broker)
  const { writer, stored, dropped } = setup(100)
  await writer.close()
  writer.add(toItem(line('late')))
  expect([dropped, stored]).toEqual([{ not_stored: 1 }, []])
})
