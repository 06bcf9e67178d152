// Materialized targets with their reasons. `retarget*` recompute those of one agent or stack from labels, annotations, explicit targets and
// registrations, and write only differences. migrations/0007_targeting.sql states the lock order.
import { AgentTarget } from '@brokkr/contract/agents/agent.ts'
import { AgentId } from '@brokkr/contract/wire.ts'
import { count, lookUp, maybe, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'
import type { TimeKey } from '../../schema/sql-fragments.ts'

const reasons = `array_remove(array[case when explicit then 'explicit' end, case when by_label then 'label' end, case when by_annotation then 'annotation' end], null) as reasons`

const advisoryLock = (kind: 'agent' | 'stack', id: string) =>
  `pg_advisory_xact_lock(hashtextextended('brokkr:target:${kind}:' || current_schema() || ':' || ${id}::text, 0))`

/** Serializes changes of the targets of one agent; agents do not wait for each other. */
export const lockAgent = count(
  'agent_targets.lockAgent',
  (p: Slots<{ agent_id: string }>) => `select ${advisoryLock('agent', `${p.agent_id}`)}`,
)
export const lockStack = count(
  'agent_targets.lockStack',
  (p: Slots<{ stack_id: string }>) => `select ${advisoryLock('stack', `${p.stack_id}`)}`,
)

/** Call after both advisory locks and before an explicit target changes: neither side is deleted or changes its connection state meanwhile. */
export const holdStack = count(
  'agent_targets.holdStack',
  (p: Slots<{ stack_id: string }>) => `select id from stacks where id = ${p.stack_id}::uuid for key share`,
)
export const holdAgent = count(
  'agent_targets.holdAgent',
  (p: Slots<{ agent_id: string }>) => `select id from agents where id = ${p.agent_id}::uuid for key share`,
)

/** Blocks concurrent changes of stacks with the same labels and annotations until the transaction ends. `keys` are those added or removed. */
export const enterGatesOfAgent = count(
  'agent_targets.enterGatesOfAgent',
  (p: Slots<{ agent_id: string; keys: string[] }>) => `select enter_gates_of_agent(${p.agent_id}::uuid, ${p.keys}::text[])`,
)
/** The same for a stack, which must be live. */
export const enterGatesOfStack = count(
  'agent_targets.enterGatesOfStack',
  (p: Slots<{ stack_id: string; keys: string[] }>) => `select enter_gates_of_stack(${p.stack_id}::uuid, ${p.keys}::text[])`,
)

export const retargetAgent = count(
  'agent_targets.retargetAgent',
  (p: Slots<{ agent_id: string; targets_max: number }>) => `select retarget_agent(${p.agent_id}::uuid, ${p.targets_max}::int)`,
)
export const retargetStack = count(
  'agent_targets.retargetStack',
  (p: Slots<{ stack_id: string }>) => `select retarget_stack(${p.stack_id}::uuid)`,
)

/** null if the explicit target exists already. */
export const makeExplicit = maybe(
  'agent_targets.makeExplicit',
  AgentTarget,
  (p: Slots<{ agent_id: string; stack_id: string }>) => `
  insert into agent_targets as t (id, agent_id, stack_id, explicit) values (gen_random_uuid(), ${p.agent_id}, ${p.stack_id}, true)
  on conflict (agent_id, stack_id) do update set explicit = true where not t.explicit
  returning id, agent_id, stack_id, ${reasons}`,
)

/** Removes the explicit reason; a target without another reason ends. Returns whether an explicit reason existed. */
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

/** The same for many stacks. */
export const hadAmong = rows(
  'agent_targets.hadAmong',
  z.object({ stack_id: z.string() }),
  (p: Slots<{ agent_id: string; stack_ids: string[] }>) => `
  select stack_id from agent_targets where agent_id = ${p.agent_id}::uuid and stack_id = any(${p.stack_ids}::uuid[])
  union
  select stack_id from agent_stack_status where agent_id = ${p.agent_id}::uuid and stack_id = any(${p.stack_ids}::uuid[]) and phase <> 'removed'`,
)

/** The same for pairs of agents and stacks. */
export const pairsAmong = rows(
  'agent_targets.pairsAmong',
  z.object({ agent_id: z.string(), stack_id: z.string() }),
  (p: Slots<{ agent_ids: string[]; stack_ids: string[] }>) => `
  select t.agent_id, t.stack_id from unnest(${p.agent_ids}::uuid[], ${p.stack_ids}::uuid[]) as pair (agent_id, stack_id)
  join agent_targets t on t.agent_id = pair.agent_id and t.stack_id = pair.stack_id
  union
  select s.agent_id, s.stack_id from unnest(${p.agent_ids}::uuid[], ${p.stack_ids}::uuid[]) as pair (agent_id, stack_id)
  join agent_stack_status s on s.agent_id = pair.agent_id and s.stack_id = pair.stack_id and s.phase <> 'removed'`,
)

export const countOfAgent = one(
  'agent_targets.countOfAgent',
  z.object({ held: z.int() }),
  (p: Slots<{ agent_id: string }>) => `select count(*) as held from agent_targets where agent_id = ${p.agent_id}::uuid`,
)

export const forgetAgent = count(
  'agent_targets.forgetAgent',
  (p: Slots<{ agent_id: string }>) => `
  with ended as materialized (select id from agent_targets where agent_id = ${p.agent_id}::uuid order by stack_id for update)
  delete from agent_targets t using ended where t.id = ended.id`,
)

/** Ends the targets of deleted stacks; a trigger records the removals. The caller holds the stacks FOR UPDATE. */
export const endOfStacks = count(
  'agent_targets.endOfStacks',
  (p: Slots<{ stack_ids: string[] }>) => `
  with agents_of as materialized (
    select id from agents where id in (select agent_id from agent_targets where stack_id = any(${p.stack_ids}::uuid[])) order by id for key share),
  ended as materialized (
    select id from agent_targets where stack_id = any(${p.stack_ids}::uuid[]) and (select count(*) from agents_of) > 0
    order by stack_id, agent_id for update)
  delete from agent_targets t using ended where t.id = ended.id`,
)

export const agentsOfStack = rows(
  'agent_targets.agentsOfStack',
  z.object({ agent_id: AgentId, name: z.string(), reasons: z.array(z.string()) }),
  (p: Slots<{ stack_id: string }>) => `
  select t.agent_id, a.name, ${reasons} from agent_targets t join agents a on a.id = t.agent_id
  where t.stack_id = ${p.stack_id}::uuid order by a.name, a.id`,
)

const expectedTargets = `
  select m.agent_id, m.stack_id, bool_or(m.explicit) as explicit, bool_or(m.by_label) as by_label, bool_or(m.by_annotation) as by_annotation
  from (
    select agent_id, stack_id, true as explicit, false as by_label, false as by_annotation from agent_targets where explicit
    union all
    select a.agent_id, s.stack_id, false, true, false from agent_labels a join stack_labels s using (label)
    union all
    select a.agent_id, s.stack_id, false, false, true from agent_annotations a join stack_annotations s using (key, value)
  ) m
  join agents g on g.id = m.agent_id and g.deleted_at is null
  join stacks k on k.id = m.stack_id and k.deleted_at is null
  join agent_generator_registrations r on r.agent_id = m.agent_id and r.generator_id = k.generator_id
  group by m.agent_id, m.stack_id`
const differing = `
  (${expectedTargets}) w full join agent_targets t on t.agent_id = w.agent_id and t.stack_id = w.stack_id
  where (w.explicit, w.by_label, w.by_annotation) is distinct from (t.explicit, t.by_label, t.by_annotation)`

/** Targets that are missing, superfluous or have wrong reasons, read in one database snapshot without a lock. */
export const drift = one(
  'agent_targets.drift',
  z.object({ pairs: z.int(), differences: z.int() }),
  () => `select (select count(*) from agent_targets) as pairs, count(*) as differences from ${differing}`,
)
export const agentsWithDrift = rows(
  'agent_targets.agentsWithDrift',
  z.object({ agent_id: z.string() }),
  (p: Slots<{ limit: number }>) =>
    `select distinct coalesce(w.agent_id, t.agent_id) as agent_id from ${differing} order by 1 limit ${p.limit}::int`,
)
