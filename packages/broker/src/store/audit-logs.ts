// Who did what: written in the transaction of the deed, so that no deed exists without its row; read newest first.
import { z } from 'zod'
import { count, one, rows, type Slots } from './sql.ts'

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

export interface AuditFilter {
  readonly actor_type: string | null
  readonly actor_id: string | null
  readonly action: string | null
  /** In the place of `action`: everything that begins so. */
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
/** The name is looked up for the rows of the page alone. */
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

/** Counted no further than to `most`: nobody pages through more, and a log of years must not be read for a number. */
export const total = one(
  'audit_logs.total',
  z.object({ total: z.int() }),
  (p: Slots<AuditFilter & { most: number }>) => `
  select count(*) as total from (select from audit_logs a where ${matches(p)} limit ${p.most}::int) counted`,
)

/** This month's partition and the next one's, where they are missing. */
export const makePartitions = count(
  'audit_logs.makePartitions',
  () =>
    `select make_audit_partition((now() at time zone 'utc')::date), make_audit_partition((now() at time zone 'utc' + interval '1 month')::date)`,
)

/** Months that ended before the retention began; how many rows no month has room for is told beside it. */
export const dropOld = one(
  'audit_logs.dropOld',
  z.object({ dropped: z.int(), outside: z.int() }),
  (p: Slots<{ days: number }>) => `
  select drop_audit_partitions(now() - ${p.days}::float8 * interval '1 day') as dropped, (select count(*) from audit_logs_default) as outside`,
)
