import { expect, test, vi } from 'vitest'
import type { Message } from '../connector.ts'
import { payloads, useCdcWorld } from '../test-parts/cdc-flow.ts'
import { endlessBudget, sourceContext } from '../test-parts/contexts.ts'
import { postgresqlCdcSource } from './index.ts'

const cdc = useCdcWorld()
const rows = 20_000
const blockedMs = 3_600_000

test('a snapshot continues after its sink was blocked for an hour', { timeout: 180_000 }, async () => {
  // Larger than what the sockets between server and source hold, so that COPY waits for the sink.
  await cdc.admin.query(
    `create table t (id int primary key, a text); insert into t select i, repeat('x', 1000) from generate_series(1, ${rows}) i`,
  )
  const role = `alter role current_user in database ${cdc.database.name} set`
  await cdc.admin.query(`${role} statement_timeout = '10s'; ${role} idle_in_transaction_session_timeout = '10s'`)
  const source = postgresqlCdcSource.open(cdc.config({ tables: ['t'] }), sourceContext({ isBounded: true }))
  const read: Message[] = []
  // Only timers pass: every limit that a client sets on its statement ends during the pause.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  try {
    await source.connect()
    for await (const { messages } of source.read(endlessBudget)) {
      if (read.length === 0) await vi.advanceTimersByTimeAsync(blockedMs)
      read.push(...messages)
      if (read.length >= rows) break
    }
  } finally {
    vi.useRealTimers()
    await source.close()
  }
  expect(payloads(read).map(({ id }) => id)).toEqual(Array.from({ length: rows }, (_, index) => index + 1))
})
