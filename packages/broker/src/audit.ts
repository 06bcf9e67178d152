// Writes the audit row of a deed, in the deed's transaction. Details hold ids, names and changed field names, never values
// of secrets or manifests.
import type { Actor } from './domain/actor.ts'
import { uuid7 } from './domain/uuid7.ts'
import * as auditLogs from './store/audit-logs.ts'
import type { Sql } from './store/sql.ts'

export interface Deed {
  readonly by: Actor
  readonly action: string
  readonly on: { readonly type: string; readonly id: string | null }
  readonly details?: Readonly<Record<string, unknown>>
}

export async function recordDeed(sql: Sql, deed: Deed): Promise<void> {
  const details = { ...deed.details, ...(deed.by.requestId === null ? {} : { request_id: deed.by.requestId }) }
  await auditLogs.insert(sql, {
    id: uuid7(),
    actor_type: deed.by.kind,
    actor_id: deed.by.id,
    action: deed.action,
    resource_type: deed.on.type,
    resource_id: deed.on.id,
    details: Object.keys(details).length === 0 ? null : JSON.stringify(details),
    ip_address: deed.by.address,
    user_agent: deed.by.userAgent?.slice(0, 512) ?? null,
  })
}
