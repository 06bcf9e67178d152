// Approvals of removals that the agent's guard holds back. Open: not used, not expired, and of a revision while it is the newest.
import { PruneApproval } from '@brokkr/contract/prune-approval.ts'
import { z } from 'zod'
import { count, maybe, one, rows, type Slots } from './sql.ts'

const columns = `p.id, p.agent_id, p.removals, p.stack_id, p.sequence_id, p.expires_at, p.created_at`
const isOpen = `p.used_at is null and (p.expires_at is null or p.expires_at > now())
  and (p.stack_id is null or p.sequence_id = (
    select d.sequence_id from deployment_objects d where d.stack_id = p.stack_id and d.deleted_at is null order by d.sequence_id desc limit 1))`

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

/** So many removals may follow from the agent's next snapshot, by the most generous of what is open; null: nobody was asked. */
export const takeRemovals = maybe(
  'prune_approvals.takeRemovals',
  z.object({ ids: z.array(z.string()), removals: z.int() }),
  (p: Slots<{ agent_id: string }>) => `
  select array_agg(p.id)::uuid[] as ids, max(p.removals) as removals from prune_approvals p
  where p.agent_id = ${p.agent_id}::uuid and p.removals is not null and ${isOpen} having count(*) > 0`,
)

export const markUsed = count(
  'prune_approvals.markUsed',
  (p: Slots<{ ids: string[] }>) => `update prune_approvals set used_at = now() where id = any(${p.ids}::uuid[]) and used_at is null`,
)

/** The agent reports that these objects are in the cluster: what was approved for them has happened. */
export const markApplied = count(
  'prune_approvals.markApplied',
  (p: Slots<{ agent_id: string; object_ids: string[] }>) => `
  update prune_approvals p set used_at = now() from deployment_objects d
  where p.agent_id = ${p.agent_id}::uuid and p.used_at is null and d.id = any(${p.object_ids}::uuid[])
    and d.stack_id = p.stack_id and d.sequence_id = p.sequence_id`,
)
