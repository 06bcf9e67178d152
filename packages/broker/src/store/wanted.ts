// What agents should run: the live pairs, each stack's wanted object (its live one with the highest sequence), and what is
// still to be removed. Listings carry identities only; content follows by immutable id.
import { DeploymentObjectId, StackId } from '@brokkr/contract/wire.ts'
import { z } from 'zod'
import { inHistory } from './feed-state.ts'
import { headOf } from './head-of.ts'
import { one, rows, type Slots } from './sql.ts'
import { stackOf } from './stack-of.ts'

const identity = {
  stack_id: StackId,
  stack_name: z.string(),
  rev: z.int(),
  drift: z.enum(['heal', 'report', 'off']),
  object_id: DeploymentObjectId.nullable(),
  sequence_id: z.int().nullable(),
  is_deletion_marker: z.boolean().nullable(),
  yaml_checksum: z.string().nullable(),
  yaml_bytes: z.int().nullable(),
}
const State = z.object({ ...identity, is_deleted: z.boolean() })
/** A stack as it should be, seen at one instant: rev and wanted object belong together. */
export type StackState = z.output<typeof State>

const wantedObject = `
  left join lateral ${headOf('id, sequence_id, is_deletion_marker, yaml_checksum, yaml_bytes')} o on true`
const columns = `s.id as stack_id, s.name as stack_name, s.last_sequence as rev, s.drift,
  o.id as object_id, o.sequence_id, o.is_deletion_marker, o.yaml_checksum, o.yaml_bytes`

export const statesOf = rows(
  'wanted.statesOf',
  State,
  (p: Slots<{ stack_ids: string[] }>) => `
  select ${columns}, s.deleted_at is not null as is_deleted
  from stacks s ${wantedObject} where s.id = any(${p.stack_ids}::uuid[])`,
)

const LoadedState = z.object({ ...identity, is_deleted: z.boolean(), yaml_sealed: z.instanceof(Buffer).nullable() })
/** With its content, where that is small enough to travel inside a frame. */
export type LoadedState = z.output<typeof LoadedState>

export const statesWithContent = rows(
  'wanted.statesWithContent',
  LoadedState,
  (p: Slots<{ stack_ids: string[]; inline_bytes: number }>) => `
  select ${columns}, s.deleted_at is not null as is_deleted,
         (select c.yaml_sealed from deployment_objects c where c.id = o.id and o.yaml_bytes <= ${p.inline_bytes}::int) as yaml_sealed
  from stacks s ${wantedObject} where s.id = any(${p.stack_ids}::uuid[])`,
)

const Listed = z.object({
  cursor: z.string(),
  is_current: z.boolean(),
  kind: z.enum(['wanted', 'removal']).nullable(),
  ...nullable(identity),
  is_deleted: z.boolean().nullable(),
})
/** One agent's wanted set and open removals, with the snapshot that saw them, and whether it is of the history that is meant: one short
 *  statement, whatever its size. */
export const listForAgent = rows(
  'wanted.listForAgent',
  Listed,
  (p: Slots<{ agent_id: string; epoch: string; boot: string }>) => `
  select pg_current_snapshot()::text as cursor, ${inHistory(p.epoch, p.boot)} as is_current, c.* from (values (1)) as one left join (
    select 'wanted' as kind, ${columns}, false as is_deleted
    from agent_targets t ${stackOf('t.stack_id', 'and deleted_at is null')} ${wantedObject}
    where t.agent_id = ${p.agent_id}::uuid
    union all
    select 'removal', s.id, s.name, s.last_sequence, s.drift, o.id, o.sequence_id, o.is_deletion_marker, o.yaml_checksum, o.yaml_bytes, s.deleted_at is not null
    from agent_stack_status a ${stackOf('a.stack_id')} ${wantedObject}
    where a.agent_id = ${p.agent_id}::uuid and a.phase <> 'removed'
      and not exists (select from agent_targets t where t.agent_id = a.agent_id and t.stack_id = a.stack_id)
  ) as c on true
  order by c.stack_id`,
)
/** A row of the listing that is wanted: only the object's own columns may be null, when nothing was submitted yet. */
export type WantedStack = z.output<z.ZodObject<typeof identity>>

const ScopesRow = z.object({ cursor: z.string(), is_current: z.boolean(), floor_xid: z.string(), stack_ids: z.array(z.string()) })
/** What an agent follows, and the checks of its cursor at the same instant. */
export const scopesOfAgent = one(
  'wanted.scopesOfAgent',
  ScopesRow,
  (p: Slots<{ agent_id: string; epoch: string; boot: string }>) => `
  select pg_current_snapshot()::text as cursor, ${inHistory(p.epoch, p.boot)} as is_current, f.floor_xid::text,
         array(select stack_id from agent_targets where agent_id = ${p.agent_id}::uuid)::uuid[] as stack_ids
  from feed_state f`,
)

/** The scopes of labels and annotations, as the triggers of work orders and deliveries write them. */
export const markScopes = rows(
  'wanted.markScopes',
  z.object({ agent_id: z.string(), scope_kind: z.string(), scope_id: z.string() }),
  (p: Slots<{ agent_ids: string[] }>) => `
  select agent_id, 'label' as scope_kind, md5(label)::uuid as scope_id from agent_labels where agent_id = any(${p.agent_ids}::uuid[])
  union all
  select agent_id, 'annotation', md5(key || '=' || value)::uuid from agent_annotations where agent_id = any(${p.agent_ids}::uuid[])`,
)

export const livePairs = rows(
  'wanted.livePairs',
  z.object({ agent_id: z.string(), stack_id: z.string() }),
  (p: Slots<{ agent_ids: string[]; stack_ids: string[] }>) => `
  select t.agent_id, t.stack_id
  from unnest(${p.agent_ids}::uuid[], ${p.stack_ids}::uuid[]) as w (agent_id, stack_id)
  join agent_targets t on t.agent_id = w.agent_id and t.stack_id = w.stack_id`,
)

function nullable<T extends Record<string, z.ZodType>>(shape: T): { [K in keyof T]: z.ZodNullable<T[K]> } {
  return Object.fromEntries(Object.entries(shape).map(([key, type]) => [key, type.nullable()])) as { [K in keyof T]: z.ZodNullable<T[K]> }
}
