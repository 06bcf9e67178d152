// The newest report per agent and stack. A row yields only to a newer report: a higher (session, n), and within one epoch
// no lower rev, so reports may repeat and cross.
import { AgentStackStatus } from '@brokkr/contract/stacks/stack.ts'
import { count, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'
import { wantedObjectId } from '../../deployments/store/deployment-objects.ts'

/** Takes the locks of a report (`lock_report`) before its first row is written; the statement then asks it with `cross join locked`. */
const lockPairs = (pairs: string): string => `
  locked as materialized (select lock_report(array_agg(agent_id), array_agg(stack_id)) from (${pairs}) as pair (agent_id, stack_id))`

const Accepted = z.object({
  stack_id: z.string(),
  applied_seconds: z.number().nullable(),
  audit_action: z.enum(['prune.held', 'policy.denied']).nullable(),
})
/** `applied_seconds`: of an object that is reported in the cluster for the first time, how long ago it was submitted, by our clock alone.
 *  `audit_action`: of a stack that is held or denied since this report.
 *  Reports of stacks the agent neither has nor has to remove are left out: what is not its own does not exist for it. */
export const record = rows(
  'agent_stack_status.record',
  Accepted,
  (p: Slots<{ agent_id: string; session: number; n: number; reports: string }>) => `
  with ${lockPairs(`select ${p.agent_id}::uuid, (r->>'stack_id')::uuid from jsonb_array_elements(${p.reports}::jsonb) r`)},
  before as materialized (select stack_id, object_id, phase, code from agent_stack_status where agent_id = ${p.agent_id}::uuid
    and stack_id in (select (r->>'stack_id')::uuid from jsonb_array_elements(${p.reports}::jsonb) r)),
  written as (
  insert into agent_stack_status as s (agent_id, stack_id, epoch, rev, object_id, phase, code, message, attempts, retry_at, session, n, observed_at)
  select ${p.agent_id}::uuid, r.stack_id, f.epoch, r.rev, r.object_id, r.phase, r.code, r.message, r.attempts, r.retry_at, ${p.session}::bigint, ${p.n}::bigint, r.observed_at
  from jsonb_to_recordset(${p.reports}::jsonb) as r (stack_id uuid, rev bigint, object_id uuid, phase text, code text, message text, attempts int, retry_at timestamptz, observed_at timestamptz)
  cross join feed_state f cross join locked
  where (exists (select from agent_targets t where t.agent_id = ${p.agent_id}::uuid and t.stack_id = r.stack_id)
     or exists (select from agent_stack_status o where o.agent_id = ${p.agent_id}::uuid and o.stack_id = r.stack_id))
    -- A revision of another stack would show its number to whoever reads this one. An unknown one is kept: a restored database may lack it.
    and not exists (select from deployment_objects d where d.id = r.object_id and d.stack_id <> r.stack_id)
  order by r.stack_id
  on conflict (agent_id, stack_id) do update set
    epoch = excluded.epoch, rev = excluded.rev, object_id = excluded.object_id, phase = excluded.phase, code = excluded.code, message = excluded.message,
    attempts = excluded.attempts, retry_at = excluded.retry_at, session = excluded.session, n = excluded.n, observed_at = excluded.observed_at, received_at = now()
  where (excluded.session, excluded.n) > (s.session, s.n) and (s.epoch <> excluded.epoch or excluded.rev >= s.rev)
  returning s.stack_id, s.object_id, s.phase, s.code)
  select w.stack_id, case when w.phase = 'applied' and (b.phase, b.object_id) is distinct from (w.phase, w.object_id)
                     then extract(epoch from now() - d.created_at)::float8 end as applied_seconds,
    case when (b.phase, b.code) is distinct from (w.phase, w.code) then
      case when (w.phase, w.code) = ('held', 'prune_guard') then 'prune.held' when (w.phase, w.code) = ('failed', 'policy_denied') then 'policy.denied' end
    end as audit_action
  from written w left join before b using (stack_id) left join deployment_objects d on d.id = w.object_id`,
)

/** What the broker could not send. Not a report of the agent, so (session, n) stay and its next report wins; written once per state. */
export const recordSkips = count(
  'agent_stack_status.recordSkips',
  (p: Slots<{ skips: string }>) => `
  with skips as materialized (
    select r.* from jsonb_to_recordset(${p.skips}::jsonb) as r (agent_id uuid, stack_id uuid, rev bigint, object_id uuid, code text, message text)),
  ${lockPairs('select agent_id, stack_id from skips')}
  insert into agent_stack_status as s (agent_id, stack_id, epoch, rev, object_id, phase, code, message)
  select r.agent_id, r.stack_id, f.epoch, r.rev, r.object_id, 'failed', r.code, r.message
  from skips r join agent_targets t on t.agent_id = r.agent_id and t.stack_id = r.stack_id cross join feed_state f cross join locked
  order by r.stack_id, r.agent_id
  on conflict (agent_id, stack_id) do update set
    epoch = excluded.epoch, rev = excluded.rev, object_id = excluded.object_id, phase = 'failed', code = excluded.code, message = excluded.message,
    retry_at = null, received_at = now()
  where (s.epoch, s.phase, s.rev, s.object_id, s.code) is distinct from (excluded.epoch, 'failed', excluded.rev, excluded.object_id, excluded.code)
    and (s.epoch <> excluded.epoch or excluded.rev >= s.rev)`,
)

/** Each agent of a stack, targeted or still removing it; `stale` by database time. A reported removal is ignored once the stack targets the agent again. */
export const listOfStack = rows(
  'agent_stack_status.listOfStack',
  AgentStackStatus,
  (p: Slots<{ stack_id: string; stale_after_seconds: number }>) => `
  select a.id as agent_id, a.name as agent_name, a.cluster_name,
    array_remove(array[case when t.explicit then 'explicit' end, case when t.by_label then 'label' end, case when t.by_annotation then 'annotation' end], null) as reasons,
    w.sequence_id as desired_sequence_id, s.rev, o.sequence_id, s.object_id as deployment_object_id,
    case when p.is_past then 'pending' else s.phase end as phase, case when p.is_past then 'applying' else s.code end as code, case when not p.is_past then s.message end as message, coalesce(s.attempts, 0) as attempts,
    s.retry_at, case when a.connection_state = 'disconnected' then 'unknown' else coalesce(t.health, 'unknown') end as health, s.observed_at, case when s.session > 0 then s.received_at end as received_at,
    coalesce(l.last_seen_at < now() - ${p.stale_after_seconds}::float8 * interval '1 second', true) as stale
  from (select agent_id from agent_targets where stack_id = ${p.stack_id}::uuid
        union select agent_id from agent_stack_status where stack_id = ${p.stack_id}::uuid and phase <> 'removed') pair
  join agents a on a.id = pair.agent_id and a.deleted_at is null
  left join agent_liveness l on l.agent_id = a.id
  left join agent_targets t on t.agent_id = a.id and t.stack_id = ${p.stack_id}::uuid
  left join agent_stack_status s on s.agent_id = a.id and s.stack_id = ${p.stack_id}::uuid
  cross join lateral (select coalesce(s.phase = 'removed' and t.stack_id is not null and removal_is_past(s.stack_id, s.rev, s.object_id), false) as is_past) p
  left join deployment_objects o on o.id = s.object_id
  left join stacks k on k.id = ${p.stack_id}::uuid
  left join deployment_objects w on w.id = ${wantedObjectId('k')} and w.deleted_at is null
  order by a.name, a.id`,
)

export const forgetAgent = count(
  'agent_stack_status.forgetAgent',
  (p: Slots<{ agent_id: string }>) => `delete from agent_stack_status where agent_id = ${p.agent_id}::uuid`,
)

/** Call before `markRemoved`: locks the targets, so that the desired state does not change in between. */
export const lockOfObjects = count(
  'agent_stack_status.lockOfObjects',
  (p: Slots<{ agent_id: string; object_ids: string[] }>) => `
  with ${lockPairs(`select ${p.agent_id}::uuid, o.stack_id from deployment_objects o where o.id = any(${p.object_ids}::uuid[])`)}
  select from locked`,
)

/** Marks stacks removed whose objects agents reported as deleted. A live target is marked only by its wanted object; an ended one by any deployment
 *  object not older than the acknowledged one. (session, n) stay, so that status reports of the agent take precedence. */
export const markRemoved = count(
  'agent_stack_status.markRemoved',
  (p: Slots<{ agent_id: string; object_ids: string[] }>) => `
  with gone as materialized (
    select distinct on (o.stack_id) o.id, o.stack_id, o.sequence_id from deployment_objects o
    where o.id = any(${p.object_ids}::uuid[]) order by o.stack_id, o.sequence_id desc)
  insert into agent_stack_status as s (agent_id, stack_id, epoch, rev, object_id, phase)
  select ${p.agent_id}::uuid, o.stack_id, f.epoch, k.last_sequence, o.id, 'removed'
  from gone o join stacks k on k.id = o.stack_id cross join feed_state f
  where case when exists (select from agent_targets t where t.agent_id = ${p.agent_id}::uuid and t.stack_id = o.stack_id)
    then ${wantedObjectId('k')} = o.id
    else exists (select from agent_stack_status e where e.agent_id = ${p.agent_id}::uuid and e.stack_id = o.stack_id)
      and not exists (select from deployment_objects n join agent_object_acks a on a.deployment_object_id = n.id and a.agent_id = ${p.agent_id}::uuid
                      where n.stack_id = o.stack_id and n.sequence_id > o.sequence_id) end
  order by o.stack_id
  on conflict (agent_id, stack_id) do update set object_id = excluded.object_id, phase = 'removed', code = null, message = null, received_at = now()
  where s.phase <> 'removed'`,
)

/** Rows of removals that were reported long ago. */
export const removeRemoved = count(
  'agent_stack_status.removeRemoved',
  (p: Slots<{ hours: number; limit: number }>) => `
  delete from agent_stack_status where ctid in (
    select ctid from agent_stack_status where phase = 'removed' and received_at < now() - ${p.hours}::float8 * interval '1 hour'
    order by received_at limit ${p.limit}::int for update skip locked)`,
)
