// Stored counts per stack: the overview of all stacks, and the recount that must find no difference. Stack lists read the counts in their
// own statement (stacks.ts).
import { count, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'
import { wantedObjectId } from '../../deployments/store/deployment-objects.ts'

/** The worst health wins; a target without a report, or with a silent agent, counts as unknown. */
export const worstHealth = (counts: string): string => `
  case when ${counts}.failing > 0 then 'failing' when ${counts}.degraded > 0 then 'degraded'
       when ${counts}.total = 0 or ${counts}.healthy < ${counts}.total then 'unknown' else 'healthy' end`

/** Sums the rows `m` of one stack. `current` counts only rows for the object that the stack wants; a row moves to it with its first report. */
export const sums = (wanted: string): string => `
  coalesce(sum(m.total), 0)::int as total, coalesce(sum(m.current) filter (where m.object_id = ${wanted}), 0)::int as current, coalesce(sum(m.failed), 0)::int as failed,
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
  holds: z.int(),
})
/** Reads targets only of stacks that are behind, to count their agents. */
export const overview = one(
  'stack_summary.overview',
  Counts,
  () => `
  with counted as (
    select k.id, k.held_object_id is not null as is_held, ${wantedObjectId('k')} as wanted_id, ${sums(wantedObjectId('k'))} from stacks k left join stack_summary m on m.stack_id = k.id where k.deleted_at is null group by k.id),
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
     where c.current < c.total and c.wanted_id is not null and current_object(s.phase, s.object_id) is distinct from c.wanted_id) as behind,
    (select count(*) from shown) as stacks, (select count(*) from shown where health = 'healthy') as healthy,
    (select count(*) from shown where health = 'degraded') as degraded, (select count(*) from shown where health = 'failing') as failing,
    (select count(*) from shown where health = 'unknown') as unknown, (select count(*) from shown where shown.drifted > 0) as drifted,
    (select count(*) from agent_stack_status s where s.phase = 'held' and s.code = 'prune_guard') as prune_held,
    (select count(*) from counted where is_held) as holds
  from fleet f`,
)

const Difference = z.object({ stack_id: z.string(), slot: z.int(), kept: z.string().nullable(), counted: z.string().nullable() })
const numbers = `object_id, total, current, failed, held, drifted, silent, healthy, degraded, failing, oldest_seen_at`
/** Stored counts as they are read: those for the wanted object. */
const storedCounts = `
  select m.stack_id, m.slot, ${wantedObjectId('k')} as object_id, m.total, case when m.object_id = ${wantedObjectId('k')} then m.current else 0 end as current,
    m.failed, m.held, m.drifted, m.silent, m.healthy, m.degraded, m.failing, m.oldest_seen_at
  from stack_summary m join stacks k on k.id = m.stack_id`
const differing = `
  (select * from (${storedCounts}) r where total <> 0 or current <> 0 or failed <> 0 or held <> 0 or drifted <> 0
     or silent <> 0 or healthy <> 0 or degraded <> 0 or failing <> 0) s
  full join stack_summary_counted c using (stack_id, slot)
  where row(s.object_id, s.total, s.current, s.failed, s.held, s.drifted, s.silent, s.healthy, s.degraded, s.failing, s.oldest_seen_at)
    is distinct from row(c.object_id, c.total, c.current, c.failed, c.held, c.drifted, c.silent, c.healthy, c.degraded, c.failing, c.oldest_seen_at)`

/** Rows whose stored counts differ from the targets. Empty unless a writer bypassed the triggers. */
export const differences = rows(
  'stack_summary.differences',
  Difference,
  (p: Slots<{ limit: number }>) => `
  select stack_id, slot, to_jsonb(s)::text as kept, to_jsonb(c)::text as counted from ${differing} limit ${p.limit}::int`,
)

/** Corrects differing rows. Call `lockWriters` first. */
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

/** Call it after the bound of the stack moved, in the same transaction. */
export const recountCurrent = count(
  'stack_summary.recountCurrent',
  (p: Slots<{ stack_id: string }>) => `select recount_current(${p.stack_id}::uuid)`,
)

/** Blocks writers of counts until the transaction ends; a concurrent change would be overwritten. */
export const lockWriters = count('stack_summary.lockWriters', () => `lock table stack_summary in exclusive mode`)
