// Health records: the newest per agent and revision.
import { DeploymentHealth, HealthStatus } from '@brokkr/contract/health.ts'
import { DeploymentObjectId } from '@brokkr/contract/wire.ts'
import { z } from 'zod'
import { count, rows, type Slots } from './sql.ts'

/** An older check never replaces a newer one. What is written and counted is locked before the first row (`lock_report`). */
export const record = count(
  'deployment_health.record',
  (p: Slots<{ agent_id: string; records: string }>) => `
  with locked as materialized (
    select lock_report(array_agg(${p.agent_id}::uuid), array_agg(o.stack_id))
    from (select distinct d.stack_id from jsonb_array_elements(${p.records}::jsonb) r join deployment_objects d on d.id = (r->>'id')::uuid) o)
  insert into deployment_health as h (id, agent_id, deployment_object_id, status, summary, checked_at)
  select gen_random_uuid(), ${p.agent_id}::uuid, r.id, r.status, r.summary, r.checked_at
  from jsonb_to_recordset(${p.records}::jsonb) as r (id uuid, status text, summary text, checked_at timestamptz)
  cross join locked
  order by r.id
  on conflict (agent_id, deployment_object_id) do update
    set status = excluded.status, summary = excluded.summary, checked_at = excluded.checked_at, updated_at = now()
  where excluded.checked_at >= h.checked_at`,
)

const Change = z.object({
  agent_id: z.string(),
  deployment_object_id: z.string(),
  stack_id: z.string(),
  previous_status: HealthStatus.nullable(),
  status: HealthStatus,
  summary: z.string().nullable(),
  checked_at: z.string(),
  at: z.string(),
})
/** Those of the records that will say something else than what is stored; asked before they are, by whoever holds the agent's lock. */
export const changesBy = rows(
  'deployment_health.changesBy',
  Change,
  (p: Slots<{ agent_id: string; records: string }>) => `
  select ${p.agent_id}::uuid as agent_id, o.id as deployment_object_id, o.stack_id, h.status as previous_status, r.status, r.summary, r.checked_at, now() as at
  from jsonb_to_recordset(${p.records}::jsonb) as r (id uuid, status text, summary text, checked_at timestamptz)
  join deployment_objects o on o.id = r.id
  left join deployment_health h on h.agent_id = ${p.agent_id}::uuid and h.deployment_object_id = o.id
  where h.id is null or (h.status <> r.status and r.checked_at >= h.checked_at)`,
)

export const ofObject = rows(
  'deployment_health.ofObject',
  DeploymentHealth,
  (p: Slots<{ deployment_object_id: string; limit: number }>) => `
  select h.id, h.agent_id, h.deployment_object_id, h.status, h.summary, h.checked_at, h.created_at, h.updated_at
  from deployment_health h join agents a on a.id = h.agent_id and a.deleted_at is null
  where h.deployment_object_id = ${p.deployment_object_id}::uuid order by h.created_at desc, h.id desc limit ${p.limit}::int`,
)

const OfRevision = z.object({ id: DeploymentObjectId, status: HealthStatus, agents: z.int() })
/** Live revisions of a live stack that have records, newest first: how many agents say what. */
export const ofStack = rows(
  'deployment_health.ofStack',
  OfRevision,
  (p: Slots<{ stack_id: string; limit: number }>) => `
  select o.id, h.status, count(*) as agents
  from (select d.id, d.sequence_id from deployment_objects d join stacks s on s.id = d.stack_id and s.deleted_at is null
        where d.stack_id = ${p.stack_id}::uuid and d.deleted_at is null and exists (select from deployment_health x where x.deployment_object_id = d.id)
        order by d.sequence_id desc limit ${p.limit}::int) o
  join deployment_health h on h.deployment_object_id = o.id
  join agents a on a.id = h.agent_id and a.deleted_at is null
  group by o.id, o.sequence_id, h.status order by o.sequence_id desc`,
)
