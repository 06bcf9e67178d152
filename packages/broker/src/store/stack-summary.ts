// The kept counts of stacks: one screen over all of them, and the recount that must find no difference. Pages of stacks read them in
// the list's own statement (stacks.ts).
import { z } from 'zod'
import { count, one, rows, type Slots } from './sql.ts'

/** Worst first; a pair that says nothing, or whose agent is silent, is unknown. */
export const worstHealth = (counts: string): string => `
  case when ${counts}.failing > 0 then 'failing' when ${counts}.degraded > 0 then 'degraded'
       when ${counts}.total = 0 or ${counts}.healthy < ${counts}.total then 'unknown' else 'healthy' end`

/** The rows `m` of one stack together; `current` counts only where the row has followed the stack's head, as it does with reports. */
export const sums = (head: string): string => `
  coalesce(sum(m.total), 0)::int as total, coalesce(sum(m.current) filter (where m.object_id = ${head}), 0)::int as current, coalesce(sum(m.failed), 0)::int as failed,
  coalesce(sum(m.held), 0)::int as held, coalesce(sum(m.drifted), 0)::int as drifted, coalesce(sum(m.healthy), 0)::int as healthy,
  coalesce(sum(m.degraded), 0)::int as degraded, coalesce(sum(m.failing), 0)::int as failing, min(m.oldest_seen_at) as oldest_seen_at`

const Counts = z.object({
  at: z.string(),
  agents: z.int(),
  never: z.int(),
  silent: z.int(),
  behind: z.int(),
  oldest_seen_at: z.string().nullable(),
  stacks: z.int(),
  healthy: z.int(),
  degraded: z.int(),
  failing: z.int(),
  unknown: z.int(),
  drifted: z.int(),
  prune_held: z.int(),
})
/** Pairs are looked at only where a stack is behind, to tell which of its agents are. */
export const overview = one(
  'stack_summary.overview',
  Counts,
  () => `
  with counted as (
    select k.id, k.head_object_id, ${sums('k.head_object_id')} from stacks k left join stack_summary m on m.stack_id = k.id where k.deleted_at is null group by k.id),
  shown as (select *, ${worstHealth('counted')} as health from counted),
  fleet as (
    select count(*) as agents, count(*) filter (where a.connection_state = 'never') as never,
      count(*) filter (where a.connection_state = 'disconnected') as silent,
      min(l.last_seen_at) filter (where a.connection_state = 'disconnected') as oldest_seen_at
    from agents a left join agent_liveness l on l.agent_id = a.id where a.deleted_at is null)
  select now() as at, f.*,
    (select count(distinct t.agent_id) from counted c join agent_targets t on t.stack_id = c.id
       join agents a on a.id = t.agent_id and a.connection_state = 'connected'
       left join agent_stack_status s on s.agent_id = t.agent_id and s.stack_id = t.stack_id
     where c.current < c.total and c.head_object_id is not null and current_object(s.phase, s.object_id) is distinct from c.head_object_id) as behind,
    (select count(*) from shown) as stacks, (select count(*) from shown where health = 'healthy') as healthy,
    (select count(*) from shown where health = 'degraded') as degraded, (select count(*) from shown where health = 'failing') as failing,
    (select count(*) from shown where health = 'unknown') as unknown, (select count(*) from shown where shown.drifted > 0) as drifted,
    (select count(*) from agent_stack_status s where s.phase = 'held' and s.code = 'prune_guard') as prune_held
  from fleet f`,
)

const Difference = z.object({ stack_id: z.string(), slot: z.int(), kept: z.string().nullable(), counted: z.string().nullable() })
const numbers = `object_id, total, current, failed, held, drifted, silent, healthy, degraded, failing, oldest_seen_at`
/** Kept counts as they are read: those of the head. */
const kept = `
  select m.stack_id, m.slot, k.head_object_id as object_id, m.total, case when m.object_id = k.head_object_id then m.current else 0 end as current,
    m.failed, m.held, m.drifted, m.silent, m.healthy, m.degraded, m.failing, m.oldest_seen_at
  from stack_summary m join stacks k on k.id = m.stack_id`
const differing = `
  (select * from (${kept}) r where total <> 0 or current <> 0 or failed <> 0 or held <> 0 or drifted <> 0
     or silent <> 0 or healthy <> 0 or degraded <> 0 or failing <> 0) s
  full join stack_summary_counted c using (stack_id, slot)
  where row(s.object_id, s.total, s.current, s.failed, s.held, s.drifted, s.silent, s.healthy, s.degraded, s.failing, s.oldest_seen_at)
    is distinct from row(c.object_id, c.total, c.current, c.failed, c.held, c.drifted, c.silent, c.healthy, c.degraded, c.failing, c.oldest_seen_at)`

/** Rows whose kept counts are not those of the pairs; none, unless a writer went around the triggers. */
export const differences = rows(
  'stack_summary.differences',
  Difference,
  (p: Slots<{ limit: number }>) => `
  select stack_id, slot, to_jsonb(s)::text as kept, to_jsonb(c)::text as counted from ${differing} limit ${p.limit}::int`,
)

/** Brings differing rows to the counts of the pairs. Under the retargeting lock. */
export const mend = count(
  'stack_summary.mend',
  () => `
  insert into stack_summary (stack_id, slot, ${numbers})
  select stack_id, slot, ${numbers
    .split(', ')
    .map((name) => (['object_id', 'oldest_seen_at'].includes(name) ? `c.${name}` : `coalesce(c.${name}, 0)`))
    .join(', ')} from ${differing}
  on conflict (stack_id, slot) do update set ${numbers
    .split(', ')
    .map((name) => `${name} = excluded.${name}`)
    .join(', ')}`,
)

/** Until the transaction ends nobody adds to a count: a difference that is added meanwhile would be written over. */
export const lockWriters = count('stack_summary.lockWriters', () => `lock table stack_summary in exclusive mode`)
