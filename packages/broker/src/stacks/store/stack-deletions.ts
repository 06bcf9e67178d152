// What deleted stacks had, for undeleting them.
import { count, maybe, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

/** The caller holds the stacks FOR UPDATE and has not ended their targets yet. A null object: nothing was wanted. */
export const note = count(
  'stack_deletions.note',
  (p: Slots<{ stack_ids: string[]; object_ids: (string | null)[] }>) => `
  insert into stack_deletions (stack_id, object_id, agent_ids)
  select d.stack_id, d.object_id, array(select t.agent_id from agent_targets t where t.stack_id = d.stack_id and t.explicit order by t.agent_id)
  from unnest(${p.stack_ids}::uuid[], ${p.object_ids}::uuid[]) as d (stack_id, object_id)
  on conflict (stack_id) do update set object_id = excluded.object_id, agent_ids = excluded.agent_ids, created_at = now()`,
)

/** Removes the note and returns it. */
export const take = maybe(
  'stack_deletions.take',
  z.object({ object_id: z.string().nullable(), agent_ids: z.array(z.string()) }),
  (p: Slots<{ stack_id: string }>) => `delete from stack_deletions where stack_id = ${p.stack_id}::uuid returning object_id, agent_ids`,
)

/** Those of the agents that are registered with the generator. The rows stay until the transaction ends, so no agent is deregistered meanwhile. */
export const holdRegistered = rows(
  'stack_deletions.holdRegistered',
  z.object({ agent_id: z.string() }),
  (p: Slots<{ generator_id: string; agent_ids: string[] }>) => `
  select agent_id from agent_generator_registrations where generator_id = ${p.generator_id}::uuid and agent_id = any(${p.agent_ids}::uuid[])
  order by agent_id for key share`,
)

/** Blocks concurrent changes of agents with the same labels and annotations until the transaction ends; the stack is still deleted. */
export const enterGates = count(
  'stack_deletions.enterGates',
  (p: Slots<{ stack_id: string }>) => `
  select enter_target_gates('share', array(
    select 'l' || label from stack_labels where stack_id = ${p.stack_id}::uuid
    union all select 'a' || key || '=' || value from stack_annotations where stack_id = ${p.stack_id}::uuid))`,
)

/** Locks every agent that the undelete can make a target, and those that still remove the stack. This statement and the next two take all
 *  locks of the targets in the order of migrations/0007_targeting.sql before the first target is written: explicit and other targets are
 *  written by two statements, and the second one would take them out of order. */
export const lockAgents = count(
  'stack_deletions.lockAgents',
  (p: Slots<{ stack_id: string; agent_ids: string[] }>) => `
  select from agents where id in (
    select unnest(${p.agent_ids}::uuid[])
    union select agent_id from agent_stack_status where stack_id = ${p.stack_id}::uuid
    union select a.agent_id from stack_labels s join agent_labels a using (label) where s.stack_id = ${p.stack_id}::uuid
    union select a.agent_id from stack_annotations s join agent_annotations a using (key, value) where s.stack_id = ${p.stack_id}::uuid)
  order by id for key share`,
)

/** While the stack is deleted, reports add no row: agents report on what they still have to remove. */
export const lockStatuses = count(
  'stack_deletions.lockStatuses',
  (p: Slots<{ stack_id: string }>) => `
  select from agent_stack_status where stack_id = ${p.stack_id}::uuid order by agent_id for no key update`,
)

export const lockSummary = count(
  'stack_deletions.lockSummary',
  (p: Slots<{ stack_id: string }>) => `select from stack_summary where stack_id = ${p.stack_id}::uuid order by slot for no key update`,
)

/** Explicit targets of the agents that are live. */
export const restoreTargets = count(
  'stack_deletions.restoreTargets',
  (p: Slots<{ stack_id: string; agent_ids: string[] }>) => `
  with live as materialized (select id from agents where id = any(${p.agent_ids}::uuid[]) and deleted_at is null order by id for key share)
  insert into agent_targets (id, agent_id, stack_id, explicit) select gen_random_uuid(), id, ${p.stack_id}::uuid, true from live order by id`,
)
