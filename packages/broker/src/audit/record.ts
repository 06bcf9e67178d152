// Writes an audit entry in the transaction of its action. Details contain ids, names and names of changed fields, never secrets or manifests.

import type { Sql } from '@brokkr/postgres'
import { uuid7 } from '../rules/uuid7.ts'
import type { Actor } from './rules.ts'
import * as auditLogs from './store.ts'

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
