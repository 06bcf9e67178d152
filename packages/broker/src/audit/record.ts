// Writes audit entries: in the transaction of an action, or queued for denied calls, which have no transaction.
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import { uuid7 } from '../rules/uuid7.ts'
import type { Actor } from './rules.ts'
import * as auditLogs from './store.ts'

// Writes an audit entry in the transaction of its action. Details contain ids, names and names of changed fields, never secrets or manifests.

export interface AuditEntry {
  readonly actor: Actor
  readonly action: string
  readonly resource: { readonly type: string; readonly id: string | null }
  readonly details?: Readonly<Record<string, unknown>>
}

export async function recordAuditEntry(sql: Sql, entry: AuditEntry): Promise<void> {
  await auditLogs.insert(sql, toRow(entry))
}

/** One statement for all entries. */
export async function recordAuditEntries(sql: Sql, entries: readonly AuditEntry[]): Promise<void> {
  await auditLogs.insertMany(sql, { rows: JSON.stringify(entries.map(toRow)) })
}

function toRow(entry: AuditEntry): auditLogs.AuditRow {
  const details = { ...entry.details, ...(entry.actor.requestId === null ? {} : { request_id: entry.actor.requestId }) }
  return {
    id: uuid7(),
    actor_type: entry.actor.kind,
    actor_id: entry.actor.id,
    action: entry.action,
    resource_type: entry.resource.type,
    resource_id: entry.resource.id,
    details: Object.keys(details).length === 0 ? null : JSON.stringify(details),
    ip_address: entry.actor.address,
    user_agent: entry.actor.userAgent?.slice(0, 512) ?? null,
  }
}

// Writes audit entries of rejected credentials and denied calls, which have no transaction. A bounded queue absorbs floods; one multi-row
// statement at a time writes it; stopping drains it. Entries that do not fit are dropped and counted.

export interface AuditWriter {
  record(entry: AuditEntry): void
  /** Writes the queued entries. */
  close(): Promise<void>
}

/** Queued entries and those being written. */
const queueMax = 10_000
const statementRows = 1_000

export function createAuditWriter(
  deps: { sql: Sql; clock: Clock; log: Log; metrics: Metrics },
  options: { flushMs: number; batchRows: number },
): AuditWriter {
  const droppedCounter = deps.metrics.counter('brokkr_audit_dropped_total', 'Number of audit entries of denied calls that were dropped')
  const queue: AuditEntry[] = []
  let inFlightRows = 0
  let timer: { cancel(): void } | null = null
  let drainInProgress: Promise<void> | null = null

  const writeBatch = async (): Promise<void> => {
    const batch = queue.splice(0, statementRows)
    inFlightRows = batch.length
    try {
      await recordAuditEntries(deps.sql, batch)
    } catch (error) {
      droppedCounter.inc(batch.length)
      deps.log.warn('audit entries of denied calls not written', { rows: batch.length, error: error as Error })
    } finally {
      inFlightRows = 0
    }
  }
  const drain = async (): Promise<void> => {
    while (queue.length > 0) await writeBatch()
    drainInProgress = null
  }
  /** At most one statement runs at a time, so that a slow database is not overloaded. */
  const flush = async (): Promise<void> => {
    timer?.cancel()
    timer = null
    // For an empty queue `drain` would finish before the assignment, and the variable would stay set.
    if (queue.length > 0) drainInProgress ??= drain()
    await drainInProgress
  }
  return {
    record: (entry) => {
      if (queue.length + inFlightRows >= queueMax) {
        droppedCounter.inc()
        return
      }
      // Truncated before it is queued, because a header can be much longer than the stored part.
      queue.push({ ...entry, actor: { ...entry.actor, userAgent: entry.actor.userAgent?.slice(0, 512) ?? null } })
      if (drainInProgress !== null) return
      if (queue.length >= options.batchRows) void flush()
      else timer ??= deps.clock.setTimer(options.flushMs, () => void flush())
    },
    close: () => flush(),
  }
}
