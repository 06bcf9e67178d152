// Records of the timeline: audit entries and agent events before a key, newest first, each led by its index of time, and the names that
// their sums show. Both lists are read up to the same limit, so that a page costs the same however long the history is.
import { rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'
import type { TimeKey } from '../schema/sql-fragments.ts'

export interface TimelineRange extends TimeKey {
  readonly from: string | null
  readonly to: string | null
  readonly limit: number
}

const AuditRecord = z.object({
  id: z.string(),
  created_at: z.string(),
  action: z.string(),
  actor_type: z.string(),
  actor_id: z.string().nullable(),
  resource_type: z.string(),
  resource_id: z.string().nullable(),
  resource_name: z.string().nullable(),
})

export const auditRecords = rows(
  'timeline.auditRecords',
  AuditRecord,
  (p: Slots<TimelineRange>) => `
  select a.id, a.timestamp as created_at, a.action, a.actor_type, a.actor_id, a.resource_type, a.resource_id,
    left(coalesce(a.details->>'name', a.details->>'label', a.details->>'key'), 200) as resource_name
  from audit_logs a
  where a.timestamp <= ${p.after_at}::timestamptz and (a.timestamp, a.id) < (${p.after_at}::timestamptz, ${p.after_id}::uuid)
    and a.timestamp >= coalesce(${p.from}::timestamptz, '-infinity') and a.timestamp < coalesce(${p.to}::timestamptz, 'infinity')
  order by a.timestamp desc, a.id desc limit ${p.limit}::int`,
)

const EventRecord = z.object({
  id: z.string(),
  created_at: z.string(),
  event_type: z.string(),
  status: z.string(),
  agent_id: z.string(),
  stack_id: z.string(),
  deployment_object_id: z.string(),
  message: z.string().nullable(),
})

export const eventRecords = rows(
  'timeline.eventRecords',
  EventRecord,
  (p: Slots<TimelineRange>) => `
  select e.id, e.created_at, e.event_type, e.status, e.agent_id, e.stack_id, e.deployment_object_id,
    case when e.status <> 'SUCCESS' then left(e.message, 300) end as message
  from agent_events e
  where (e.created_at, e.id) < (${p.after_at}::timestamptz, ${p.after_id}::uuid) and e.deleted_at is null
    and e.created_at >= coalesce(${p.from}::timestamptz, '-infinity') and e.created_at < coalesce(${p.to}::timestamptz, 'infinity')
  order by e.created_at desc, e.id desc limit ${p.limit}::int`,
)

/** Deployment objects without their manifests. */
export const objects = rows(
  'timeline.objects',
  z.object({ id: z.string(), stack_id: z.string(), sequence_id: z.int() }),
  (p: Slots<{ ids: string[] }>) => `select id, stack_id, sequence_id from deployment_objects where id = any(${p.ids}::uuid[])`,
)

const defineNames = (table: 'stacks' | 'agents' | 'generators') =>
  rows(
    `timeline.${table}`,
    z.object({ id: z.string(), name: z.string() }),
    (p: Slots<{ ids: string[] }>) => `select id, name from ${table} where id = any(${p.ids}::uuid[])`,
  )
/** Deleted ones too: history names what existed. */
export const stacks = defineNames('stacks')
export const agents = defineNames('agents')
export const generators = defineNames('generators')
