// Health records: the latest per agent and deployment object.
import { DeploymentHealth, HealthStatus } from '@brokkr/contract/health/deployment-health.ts'
import { DeploymentObjectId } from '@brokkr/contract/wire.ts'
import { count, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'
import { wantedObjectId } from '../deployments/store/deployment-objects.ts'

/** An older check never replaces a newer one. `lock_report` locks all affected rows before the first write. */
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
/** The records whose status differs from the stored one. Call it before `record`, while the agent row is locked. */
export const listChanges = rows(
  'deployment_health.listChanges',
  Change,
  (p: Slots<{ agent_id: string; records: string }>) => `
  select ${p.agent_id}::uuid as agent_id, o.id as deployment_object_id, o.stack_id, h.status as previous_status, r.status, r.summary, r.checked_at, now() as at
  from jsonb_to_recordset(${p.records}::jsonb) as r (id uuid, status text, summary text, checked_at timestamptz)
  join deployment_objects o on o.id = r.id
  left join deployment_health h on h.agent_id = ${p.agent_id}::uuid and h.deployment_object_id = o.id
  where h.id is null or (h.status <> r.status and r.checked_at >= h.checked_at)`,
)

export const listOfObject = rows(
  'deployment_health.listOfObject',
  DeploymentHealth,
  (p: Slots<{ deployment_object_id: string; limit: number }>) => `
  select h.id, h.agent_id, h.deployment_object_id, h.status, h.summary, h.checked_at, h.created_at, h.updated_at
  from deployment_health h join agents a on a.id = h.agent_id and a.deleted_at is null
  where h.deployment_object_id = ${p.deployment_object_id}::uuid order by h.created_at desc, h.id desc limit ${p.limit}::int`,
)

/** Records of deployment objects that their stack no longer wants. */
export const removeOld = count(
  'deployment_health.removeOld',
  (p: Slots<{ days: number; limit: number }>) => `
  delete from deployment_health where id in (
    select h.id from deployment_health h join deployment_objects o on o.id = h.deployment_object_id join stacks s on s.id = o.stack_id
    where h.updated_at < now() - ${p.days}::float8 * interval '1 day' and ${wantedObjectId('s')} is distinct from o.id
    order by h.updated_at limit ${p.limit}::int)`,
)

const OfRevision = z.object({ id: DeploymentObjectId, status: HealthStatus, agents: z.int() })
/** Number of agents per status for live deployment objects of a live stack, latest first. */
export const countOfStack = rows(
  'deployment_health.countOfStack',
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
