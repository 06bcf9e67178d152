// Prune approvals. An approval is open while it is neither used nor expired and, if it names a deployment object, while the stack wants it.
import { PruneApproval } from '@brokkr/contract/stacks/prune-approval.ts'
import { count, maybe, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'
import { wantedObjectId } from '../../deployments/store/deployment-objects.ts'

const columns = `p.id, p.agent_id, p.removals, p.stack_id, p.sequence_id, p.expires_at, p.created_at`
const isOpen = `p.used_at is null and (p.expires_at is null or p.expires_at > now())
  and (p.stack_id is null or p.sequence_id = (
    select d.sequence_id from stacks k join deployment_objects d on d.id = ${wantedObjectId('k')} and d.deleted_at is null where k.id = p.stack_id))`

export const insert = one(
  'prune_approvals.insert',
  PruneApproval,
  (
    p: Slots<{
      id: string
      agent_id: string
      removals: number | null
      stack_id: string | null
      sequence_id: number | null
      valid_seconds: number
      created_by: string
    }>,
  ) => `
  insert into prune_approvals as p (id, agent_id, removals, stack_id, sequence_id, expires_at, created_by)
  values (${p.id}::uuid, ${p.agent_id}::uuid, ${p.removals}::int, ${p.stack_id}::uuid, ${p.sequence_id}::bigint,
          case when ${p.removals}::int is not null then now() + ${p.valid_seconds}::float8 * interval '1 second' end, ${p.created_by}::text)
  returning ${columns}`,
)

export const listOpen = rows(
  'prune_approvals.listOpen',
  PruneApproval,
  (p: Slots<{ agent_id: string }>) => `
  select ${columns} from prune_approvals p where p.agent_id = ${p.agent_id}::uuid and ${isOpen} order by p.created_at desc, p.id desc limit 1000`,
)

/** Claims the agent's open approvals for one snapshot and returns the largest number of permitted removals. null if there is none, or if
 *  another snapshot holds the claim and its lease has not expired. */
export const claimRemovals = maybe(
  'prune_approvals.claimRemovals',
  z.object({ removals: z.int() }),
  (p: Slots<{ agent_id: string; snapshot_id: string; lease_seconds: number }>) => `
  with candidates as materialized (
    select p.id, p.removals from prune_approvals p
    where p.agent_id = ${p.agent_id}::uuid and p.removals is not null and ${isOpen} order by p.id limit 1000 for no key update),
  claimed as (
    insert into prune_approval_claims as c (approval_id, snapshot_id, claimed_until)
    select id, ${p.snapshot_id}::uuid, now() + ${p.lease_seconds}::float8 * interval '1 second' from candidates order by id
    on conflict (approval_id) do update set snapshot_id = excluded.snapshot_id, claimed_until = excluded.claimed_until where c.claimed_until < now()
    returning approval_id)
  select max(o.removals) as removals from candidates o join claimed c on c.approval_id = o.id having count(*) > 0`,
)

/** The snapshot was sent completely. An audit entry in the same statement says so. */
export const markUsed = count(
  'prune_approvals.markUsed',
  (p: Slots<{ snapshot_id: string }>) => `
  with used as (
    update prune_approvals set used_at = now()
    where used_at is null and id in (select approval_id from prune_approval_claims where snapshot_id = ${p.snapshot_id}::uuid)
    returning id, agent_id)
  insert into audit_logs (id, actor_type, actor_id, action, resource_type, resource_id, details)
  select gen_random_uuid(), 'agent', agent_id, 'prune.used', 'agent', agent_id, jsonb_build_object('approval_id', id) from used`,
)

/** The snapshot was not sent completely; the next one may claim them at once. */
export const releaseClaims = count(
  'prune_approvals.releaseClaims',
  (p: Slots<{ snapshot_id: string }>) => `delete from prune_approval_claims where snapshot_id = ${p.snapshot_id}::uuid`,
)

/** The agent reported that these objects are applied, which used up their approvals. */
export const markUsedByApplied = count(
  'prune_approvals.markUsedByApplied',
  (p: Slots<{ agent_id: string; object_ids: string[] }>) => `
  with used as (
    update prune_approvals p set used_at = now() from deployment_objects d
    where p.agent_id = ${p.agent_id}::uuid and p.used_at is null and d.id = any(${p.object_ids}::uuid[])
      and d.stack_id = p.stack_id and d.sequence_id = p.sequence_id
    returning p.id, p.agent_id)
  insert into audit_logs (id, actor_type, actor_id, action, resource_type, resource_id, details)
  select gen_random_uuid(), 'agent', agent_id, 'prune.used', 'agent', agent_id, jsonb_build_object('approval_id', id) from used`,
)

/** Deletes approvals that ended at least `days` ago. */
export const removeEnded = count(
  'prune_approvals.removeEnded',
  (p: Slots<{ days: number; limit: number }>) => `
  delete from prune_approvals where id in (
    select p.id from prune_approvals p
    where coalesce(p.used_at, p.expires_at, p.created_at) < now() - ${p.days}::float8 * interval '1 day' and not (${isOpen})
    order by p.created_at limit ${p.limit}::int)`,
)
