// Who did what: written in the transaction of the deed, so that no deed exists without its row.
import { count, type Slots } from './sql.ts'

export interface AuditRow {
  readonly id: string
  readonly actor_type: string
  readonly actor_id: string | null
  readonly action: string
  readonly resource_type: string
  readonly resource_id: string | null
  readonly details: string | null
  readonly ip_address: string | null
  readonly user_agent: string | null
}
export const insert = count(
  'audit_logs.insert',
  (p: Slots<AuditRow>) => `
  insert into audit_logs (id, actor_type, actor_id, action, resource_type, resource_id, details, ip_address, user_agent)
  values (${p.id}, ${p.actor_type}, ${p.actor_id}, ${p.action}, ${p.resource_type}, ${p.resource_id}, ${p.details}::jsonb, ${p.ip_address}, ${p.user_agent})`,
)
