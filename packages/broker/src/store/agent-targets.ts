// The materialised pairs of agent and stack. Pairs that end are locked in the order in which reports lock theirs. `recompute*` bring the pairs of one agent or one stack (null = all) to what
// labels, annotations, explicit rows and registrations say, and write differences only.
import { AgentTarget } from '@brokkr/contract/agent.ts'
import { AgentId } from '@brokkr/contract/wire.ts'
import { z } from 'zod'
import { count, lookUp, maybe, one, rows, type Slots, type TimeKey } from './sql.ts'

const reasons = `array_remove(array[case when explicit then 'explicit' end, case when by_label then 'label' end, case when by_annotation then 'annotation' end], null) as reasons`

/** Two changes that only match together must not miss each other: whoever changes targeting takes this first. */
export const lock = count(
  'agent_targets.lock',
  () => `select pg_advisory_xact_lock(hashtextextended('brokkr:retarget:' || current_schema(), 0))`,
)

type Scope = Slots<{ agent_id: string | null; stack_id: string | null }>
const wanted = (p: Scope) => `
  select m.agent_id, m.stack_id, bool_or(m.explicit) as explicit, bool_or(m.by_label) as by_label, bool_or(m.by_annotation) as by_annotation
  from (
    select agent_id, stack_id, true as explicit, false as by_label, false as by_annotation from agent_targets
    where explicit and (${p.agent_id}::uuid is null or agent_id = ${p.agent_id}) and (${p.stack_id}::uuid is null or stack_id = ${p.stack_id})
    union all
    select a.agent_id, s.stack_id, false, true, false from agent_labels a join stack_labels s using (label)
    where (${p.agent_id}::uuid is null or a.agent_id = ${p.agent_id}) and (${p.stack_id}::uuid is null or s.stack_id = ${p.stack_id})
    union all
    select a.agent_id, s.stack_id, false, false, true from agent_annotations a join stack_annotations s using (key, value)
    where (${p.agent_id}::uuid is null or a.agent_id = ${p.agent_id}) and (${p.stack_id}::uuid is null or s.stack_id = ${p.stack_id})
  ) m
  join agents g on g.id = m.agent_id and g.deleted_at is null
  join stacks k on k.id = m.stack_id and k.deleted_at is null
  join agent_generator_registrations r on r.agent_id = m.agent_id and r.generator_id = k.generator_id
  group by m.agent_id, m.stack_id`

export const recomputeEnded = count(
  'agent_targets.recomputeEnded',
  (p: Scope) => `
  with wanted as (${wanted(p)}),
  ended as materialized (
    select t.id from agent_targets t
    where (${p.agent_id}::uuid is null or t.agent_id = ${p.agent_id}) and (${p.stack_id}::uuid is null or t.stack_id = ${p.stack_id})
      and not exists (select from wanted w where w.agent_id = t.agent_id and w.stack_id = t.stack_id)
    order by t.stack_id, t.agent_id for update)
  delete from agent_targets t using ended where t.id = ended.id`,
)

export const recomputeBegun = count(
  'agent_targets.recomputeBegun',
  (p: Scope) => `
  with wanted as (${wanted(p)})
  insert into agent_targets as t (id, agent_id, stack_id, explicit, by_label, by_annotation)
  select gen_random_uuid(), agent_id, stack_id, explicit, by_label, by_annotation from wanted
  on conflict (agent_id, stack_id) do update set by_label = excluded.by_label, by_annotation = excluded.by_annotation
  where (t.by_label, t.by_annotation) is distinct from (excluded.by_label, excluded.by_annotation)`,
)

/** null: the pair is explicit already. */
export const makeExplicit = maybe(
  'agent_targets.makeExplicit',
  AgentTarget,
  (p: Slots<{ agent_id: string; stack_id: string }>) => `
  insert into agent_targets as t (id, agent_id, stack_id, explicit) values (gen_random_uuid(), ${p.agent_id}, ${p.stack_id}, true)
  on conflict (agent_id, stack_id) do update set explicit = true where not t.explicit
  returning id, agent_id, stack_id, ${reasons}`,
)

/** Takes the explicit reason away; a pair without another reason goes. Returns whether there was an explicit row. */
export const dropExplicit = one(
  'agent_targets.dropExplicit',
  z.object({ dropped: z.int() }),
  (p: Slots<{ agent_id: string; stack_id: string }>) => `
  with gone as (
    delete from agent_targets where agent_id = ${p.agent_id}::uuid and stack_id = ${p.stack_id}::uuid and explicit and not by_label and not by_annotation returning id),
  kept as (
    update agent_targets set explicit = false
    where agent_id = ${p.agent_id}::uuid and stack_id = ${p.stack_id}::uuid and explicit and (by_label or by_annotation) returning id)
  select (select count(*) from gone) + (select count(*) from kept) as dropped`,
)

export const list = rows(
  'agent_targets.list',
  AgentTarget.extend({ created_at: z.string() }),
  (p: Slots<TimeKey & { agent_id: string; reason: string; limit: number }>) => `
  select id, agent_id, stack_id, ${reasons}, created_at from agent_targets
  where agent_id = ${p.agent_id}::uuid and (created_at, id) < (${p.after_at}::timestamptz, ${p.after_id}::uuid)
    and (${p.reason}::text = 'all' or (${p.reason} = 'explicit' and explicit) or (${p.reason} = 'label' and by_label) or (${p.reason} = 'annotation' and by_annotation))
  order by created_at desc, id desc limit ${p.limit}::int`,
)

/** The agent has the stack for any reason, or still has to remove it. */
export const hasOrRemoves = lookUp(
  'agent_targets.hasOrRemoves',
  z.object({ stack_id: z.string() }),
  (p: Slots<{ agent_id: string; stack_id: string }>) => `
  select stack_id from agent_targets where agent_id = ${p.agent_id}::uuid and stack_id = ${p.stack_id}::uuid
  union
  select stack_id from agent_stack_status where agent_id = ${p.agent_id}::uuid and stack_id = ${p.stack_id}::uuid and phase <> 'removed'`,
)

/** The same for many at once. */
export const hadAmong = rows(
  'agent_targets.hadAmong',
  z.object({ stack_id: z.string() }),
  (p: Slots<{ agent_id: string; stack_ids: string[] }>) => `
  select stack_id from agent_targets where agent_id = ${p.agent_id}::uuid and stack_id = any(${p.stack_ids}::uuid[])
  union
  select stack_id from agent_stack_status where agent_id = ${p.agent_id}::uuid and stack_id = any(${p.stack_ids}::uuid[]) and phase <> 'removed'`,
)

export const countOf = one(
  'agent_targets.countOf',
  z.object({ held: z.int() }),
  (p: Slots<{ agent_id: string }>) => `select count(*) as held from agent_targets where agent_id = ${p.agent_id}::uuid`,
)

export const forgetAgent = count(
  'agent_targets.forgetAgent',
  (p: Slots<{ agent_id: string }>) => `
  with ended as materialized (select id from agent_targets where agent_id = ${p.agent_id}::uuid order by stack_id for update)
  delete from agent_targets t using ended where t.id = ended.id`,
)

/** Pairs of stacks that are no more; a trigger notes the removals. */
export const endOfStacks = count(
  'agent_targets.endOfStacks',
  (p: Slots<{ stack_ids: string[] }>) => `
  with ended as materialized (select id from agent_targets where stack_id = any(${p.stack_ids}::uuid[]) order by stack_id, agent_id for update)
  delete from agent_targets t using ended where t.id = ended.id`,
)

export const agentsOfStack = rows(
  'agent_targets.agentsOfStack',
  z.object({ agent_id: AgentId, name: z.string(), reasons: z.array(z.string()) }),
  (p: Slots<{ stack_id: string }>) => `
  select t.agent_id, a.name, ${reasons} from agent_targets t join agents a on a.id = t.agent_id
  where t.stack_id = ${p.stack_id}::uuid order by a.name, a.id`,
)

/** Pairs that are missing, should not be there, or carry other reasons than labels and annotations give: in one snapshot, without a lock. */
export const drift = one(
  'agent_targets.drift',
  z.object({ pairs: z.int(), differences: z.int() }),
  (p: Slots<{ agent_id: string | null; stack_id: string | null }>) => `
  with wanted as (${wanted(p)})
  select (select count(*) from agent_targets) as pairs, count(*) as differences
  from wanted w full join agent_targets t on t.agent_id = w.agent_id and t.stack_id = w.stack_id
  where (w.explicit, w.by_label, w.by_annotation) is distinct from (t.explicit, t.by_label, t.by_annotation)`,
)
