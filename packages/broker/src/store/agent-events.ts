// The history agents report, and the acknowledgements that polling agents rest on.
import { AgentEvent } from '@brokkr/contract/event.ts'
import { z } from 'zod'
import { count, maybe, rows, type Slots } from './sql.ts'

const columns = `id, agent_id, deployment_object_id, event_type, status, message, created_at, updated_at, deleted_at,
  (detail->>'sequence_id')::bigint as sequence_id, (detail->>'attempt')::int as attempt, detail->>'error_code' as error_code,
  detail->'resources' as resources, detail->'changes' as changes, occurred_at`

export interface NewEventRow {
  readonly id: string
  readonly agent_id: string
  readonly deployment_object_id: string
  readonly stack_id: string
  readonly event_type: string
  readonly status: string
  readonly message: string | null
  readonly detail: string | null
  readonly occurred_at: string | null
}
/** null: this id was stored before, by an earlier try of the same report. */
export const insert = maybe(
  'agent_events.insert',
  AgentEvent,
  (p: Slots<NewEventRow>) => `
  insert into agent_events (id, agent_id, deployment_object_id, stack_id, event_type, status, message, detail, occurred_at)
  values (${p.id}, ${p.agent_id}, ${p.deployment_object_id}, ${p.stack_id}, ${p.event_type}, ${p.status}, ${p.message}, ${p.detail}::jsonb, ${p.occurred_at})
  on conflict (id) do nothing returning ${columns}`,
)

export const get = maybe(
  'agent_events.get',
  AgentEvent,
  (p: Slots<{ id: string; agent_id: string }>) => `
  select ${columns} from agent_events where id = ${p.id}::uuid and agent_id = ${p.agent_id}::uuid`,
)

export const listOfAgent = rows(
  'agent_events.listOfAgent',
  AgentEvent,
  (p: Slots<{ agent_id: string; limit: number }>) => `
  select ${columns} from agent_events where agent_id = ${p.agent_id}::uuid and deleted_at is null order by created_at desc, id desc limit ${p.limit}::int`,
)

export const acknowledge = count(
  'agent_events.acknowledge',
  (p: Slots<{ agent_id: string; deployment_object_id: string; last_type: string; last_status: string }>) => `
  insert into agent_object_acks (agent_id, deployment_object_id, last_type, last_status)
  values (${p.agent_id}, ${p.deployment_object_id}, ${p.last_type}, ${p.last_status})
  on conflict (agent_id, deployment_object_id) do update set last_at = now(), last_type = excluded.last_type, last_status = excluded.last_status`,
)

const Acked = z.object({ deployment_object_id: z.string() })
export const acknowledgedAmong = rows(
  'agent_events.acknowledgedAmong',
  Acked,
  (p: Slots<{ agent_id: string; ids: string[] }>) => `
  select deployment_object_id from agent_object_acks where agent_id = ${p.agent_id}::uuid and deployment_object_id = any(${p.ids}::uuid[])`,
)

/** Old events but the newest of each agent and object, a batch at a time. */
export const removeOld = count(
  'agent_events.removeOld',
  (p: Slots<{ days: number; limit: number }>) => `
  delete from agent_events where id in (
    select e.id from agent_events e
    where e.created_at < now() - ${p.days}::float8 * interval '1 day'
      and exists (select from agent_events n where n.deployment_object_id = e.deployment_object_id and n.agent_id = e.agent_id
                  and (n.created_at, n.id) > (e.created_at, e.id))
    order by e.created_at, e.id limit ${p.limit}::int)`,
)

/** Acknowledgements of objects that are no longer the head of their stack. */
export const removeOldAcks = count(
  'agent_events.removeOldAcks',
  (p: Slots<{ days: number; limit: number }>) => `
  delete from agent_object_acks where ctid in (
    select a.ctid from agent_object_acks a join deployment_objects o on o.id = a.deployment_object_id join stacks s on s.id = o.stack_id
    where a.last_at < now() - ${p.days}::float8 * interval '1 day' and s.head_object_id is distinct from o.id
    order by a.last_at limit ${p.limit}::int)`,
)
