// Agent events, and the acknowledgments that filter the list of polling agents.
import { AgentEvent } from '@brokkr/contract/reports/agent-event.ts'
import { Uuid } from '@brokkr/contract/wire.ts'
import { count, maybe, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'
import { wantedObjectId } from '../../deployments/store/deployment-objects.ts'
import type { TimeKey } from '../../schema/sql-fragments.ts'

const columns = `id, agent_id, deployment_object_id, event_type, status, message, created_at, updated_at, deleted_at,
  (detail->>'sequence_id')::bigint as sequence_id, (detail->>'attempt')::bigint as attempt, detail->>'error_code' as error_code,
  detail->'resources' as resources, detail->'changes' as changes, occurred_at`

/** Inserts events of one agent in list order. Returns the new rows; the others were stored before with the same id. */
export const insertMany = rows(
  'agent_events.insertMany',
  AgentEvent,
  (p: Slots<{ agent_id: string; events: string }>) => `
  insert into agent_events (id, agent_id, deployment_object_id, stack_id, event_type, status, message, detail, occurred_at, created_at, updated_at)
  select e.id, ${p.agent_id}::uuid, e.deployment_object_id, e.stack_id, e.event_type, e.status, e.message, e.detail, e.occurred_at,
    now() + e.place * interval '1 microsecond', now() + e.place * interval '1 microsecond'
  from jsonb_to_recordset(${p.events}::jsonb) as e (id uuid, deployment_object_id uuid, stack_id uuid, event_type text, status text, message text,
    detail jsonb, occurred_at timestamptz, place int)
  order by e.id
  on conflict (id) do nothing returning ${columns}`,
)

export const amongOfAgent = rows(
  'agent_events.amongOfAgent',
  AgentEvent,
  (p: Slots<{ agent_id: string; ids: string[] }>) => `
  select ${columns} from agent_events where id = any(${p.ids}::uuid[]) and agent_id = ${p.agent_id}::uuid`,
)

export const get = maybe(
  'agent_events.get',
  AgentEvent,
  (p: Slots<{ id: string; with_deleted: boolean }>) => `
  select ${columns} from agent_events where id = ${p.id}::uuid and (deleted_at is null or ${p.with_deleted}::boolean)`,
)

/** Lists return key and size of each event. The events are read by id after the page size is known. */
const ListEntry = z.object({ id: Uuid, created_at: z.string(), bytes: z.int() })
const listColumns = `id, created_at, coalesce(octet_length(message), 0) + coalesce(pg_column_size(detail), 0) as bytes`

export const among = rows(
  'agent_events.among',
  AgentEvent,
  (p: Slots<{ ids: string[] }>) => `select ${columns} from agent_events where id = any(${p.ids}::uuid[])`,
)

export const listOfAgent = rows(
  'agent_events.listOfAgent',
  ListEntry,
  (p: Slots<TimeKey & { agent_id: string; with_deleted: boolean; limit: number }>) => `
  select ${listColumns} from agent_events
  where agent_id = ${p.agent_id}::uuid and (created_at, id) < (${p.after_at}::timestamptz, ${p.after_id}::uuid)
    and (deleted_at is null or ${p.with_deleted}::boolean)
  order by created_at desc, id desc limit ${p.limit}::int`,
)

export interface EventFilter {
  readonly generator_id: string | null
  readonly stack_id: string | null
  readonly agent_id: string | null
  readonly event_type: string | null
  readonly since: string | null
  readonly with_deleted: boolean
}
/** One statement per kind of filter, so that each uses its own index: by time, by stack, by agent. */
const defineList = (name: string, condition: (p: Slots<EventFilter>) => string) =>
  rows(
    `agent_events.${name}`,
    ListEntry,
    (p: Slots<EventFilter & TimeKey & { limit: number }>) => `
  select ${listColumns} from agent_events e
  where ${condition(p)} and (created_at, id) > (${p.after_at}::timestamptz, ${p.after_id}::uuid)
    and created_at >= coalesce(${p.since}::timestamptz, '-infinity') and (deleted_at is null or ${p.with_deleted}::boolean)
    and (${p.stack_id}::uuid is null or stack_id = ${p.stack_id}) and (${p.agent_id}::uuid is null or agent_id = ${p.agent_id})
    and (${p.event_type}::text is null or event_type = ${p.event_type})
    and (${p.generator_id}::uuid is null or exists (select from stacks s where s.id = e.stack_id and s.generator_id = ${p.generator_id}))
  order by created_at, id limit ${p.limit}::int`,
  )
export const listByTime = defineList('listByTime', () => 'true')
export const listOfStackByTime = defineList('listOfStackByTime', (p) => `stack_id = ${p.stack_id}::uuid`)
export const listOfAgentByTime = defineList('listOfAgentByTime', (p) => `agent_id = ${p.agent_id}::uuid`)

/** Each object once, behind `insertMany` in the same transaction: an event that was refused under another agent's id acknowledges nothing.
 *  Writes and locks nothing where the acknowledgement was written within a day: reports on one object then do not wait for each other.
 *  Its time serves the clean-up after weeks alone. */
export const acknowledge = count(
  'agent_events.acknowledge',
  (p: Slots<{ agent_id: string; event_ids: string[]; object_ids: string[]; types: string[]; statuses: string[] }>) => `
  insert into agent_object_acks (agent_id, deployment_object_id, last_type, last_status)
  select ${p.agent_id}::uuid, a.object_id, a.type, a.status
  from unnest(${p.event_ids}::uuid[], ${p.object_ids}::uuid[], ${p.types}::text[], ${p.statuses}::text[]) as a (event_id, object_id, type, status)
  where exists (select from agent_events e where e.id = a.event_id and e.agent_id = ${p.agent_id}::uuid)
    and not exists (select from agent_object_acks k where k.agent_id = ${p.agent_id}::uuid and k.deployment_object_id = a.object_id
                    and k.last_at > now() - interval '1 day')
  order by a.object_id
  on conflict (agent_id, deployment_object_id) do update set last_at = now(), last_type = excluded.last_type, last_status = excluded.last_status`,
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

/** Acknowledgements of objects that their stack no longer wants. */
export const removeOldAcks = count(
  'agent_events.removeOldAcks',
  (p: Slots<{ days: number; limit: number }>) => `
  delete from agent_object_acks where ctid in (
    select a.ctid from agent_object_acks a join deployment_objects o on o.id = a.deployment_object_id join stacks s on s.id = o.stack_id
    where a.last_at < now() - ${p.days}::float8 * interval '1 day' and ${wantedObjectId('s')} is distinct from o.id
    order by a.last_at limit ${p.limit}::int)`,
)
