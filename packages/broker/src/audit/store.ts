// Audit entries: written in the transaction of the action, so that no action lacks its entry; listed newest first.
import { count, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

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

/** `rows`: a JSON array of AuditRow. */
export const insertMany = count(
  'audit_logs.insertMany',
  (p: Slots<{ rows: string }>) => `
  insert into audit_logs (id, actor_type, actor_id, action, resource_type, resource_id, details, ip_address, user_agent)
  select r.id, r.actor_type, r.actor_id, r.action, r.resource_type, r.resource_id, r.details::jsonb, r.ip_address, r.user_agent
  from jsonb_to_recordset(${p.rows}::jsonb) as r (id uuid, actor_type text, actor_id uuid, action text, resource_type text, resource_id uuid,
    details text, ip_address text, user_agent text)`,
)

export interface AuditFilter {
  readonly actor_type: string | null
  readonly actor_id: string | null
  readonly action: string | null
  /** Instead of `action`: matches all actions with this prefix. */
  readonly action_prefix: string | null
  readonly resource_type: string | null
  readonly resource_id: string | null
  readonly from: string | null
  readonly to: string | null
}
const matches = (p: Slots<AuditFilter>) => `
  (${p.actor_type}::text is null or a.actor_type = ${p.actor_type}) and (${p.actor_id}::uuid is null or a.actor_id = ${p.actor_id})
  and (${p.action}::text is null or a.action = ${p.action}) and (${p.action_prefix}::text is null or a.action ^@ ${p.action_prefix})
  and (${p.resource_type}::text is null or a.resource_type = ${p.resource_type}) and (${p.resource_id}::uuid is null or a.resource_id = ${p.resource_id})
  and (${p.from}::timestamptz is null or a.timestamp >= ${p.from}) and (${p.to}::timestamptz is null or a.timestamp < ${p.to})`

const Row = z.object({
  id: z.string(),
  timestamp: z.string(),
  actor_type: z.string(),
  actor_id: z.string().nullable(),
  action: z.string(),
  resource_type: z.string(),
  resource_id: z.string().nullable(),
  details: z.record(z.string(), z.unknown()).nullable(),
  ip_address: z.string().nullable(),
  user_agent: z.string().nullable(),
  created_at: z.string(),
  actor_name: z.string().nullable(),
})
/** Names are looked up only for the rows of the page. */
export const list = rows(
  'audit_logs.list',
  Row,
  (p: Slots<AuditFilter & { after_timestamp: string; after_id: string; offset: number; limit: number }>) => `
  select l.*, case l.actor_type when 'admin' then 'admin' when 'system' then 'system'
      when 'agent' then (select name from agents where id = l.actor_id) when 'generator' then (select name from generators where id = l.actor_id) end as actor_name
  from (
    select a.id, a.timestamp, a.actor_type, a.actor_id, a.action, a.resource_type, a.resource_id, a.details, a.ip_address, a.user_agent, a.created_at
    from audit_logs a
    where a.timestamp <= ${p.after_timestamp}::timestamptz and (a.timestamp, a.id) < (${p.after_timestamp}::timestamptz, ${p.after_id}::uuid) and ${matches(p)}
    order by a.timestamp desc, a.id desc offset ${p.offset}::int limit ${p.limit}::int) l
  order by l.timestamp desc, l.id desc`,
)

/** Counts at most `most` rows, so that a large log is not scanned for an exact total. */
export const total = one(
  'audit_logs.total',
  z.object({ total: z.int() }),
  (p: Slots<AuditFilter & { most: number }>) => `
  select count(*) as total from (select from audit_logs a where ${matches(p)} limit ${p.most}::int) counted`,
)

/** Creates missing partitions of this month and the next. */
export const makePartitions = count(
  'audit_logs.makePartitions',
  () =>
    `select make_audit_partition((now() at time zone 'utc')::date), make_audit_partition((now() at time zone 'utc' + interval '1 month')::date)`,
)

/** Drops partitions older than the retention. Also returns the number of rows in the default partition. */
export const dropOld = one(
  'audit_logs.dropOld',
  z.object({ dropped: z.int(), outside: z.int() }),
  (p: Slots<{ days: number }>) => `
  select drop_audit_partitions(now() - ${p.days}::float8 * interval '1 day') as dropped, (select count(*) from audit_logs_default) as outside`,
)
