// Desired state: live targets, the wanted object of each stack and pending removals. Lists return ids and checksums; manifests are read by
// immutable id.
import { DeploymentObjectId, StackId } from '@brokkr/contract/wire.ts'
import { one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'
import { inHistory } from '../../change-feed/store/feed-state.ts'
import { selectWanted } from '../../deployments/store/deployment-objects.ts'
import { joinStack } from '../../stacks/store/join-stack.ts'

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
/** Desired state of a stack in one database snapshot, so that rev and object belong together. */
export type StackState = z.output<typeof State>

const wantedObject = `
  left join lateral ${selectWanted('id, sequence_id, is_deletion_marker, yaml_checksum, yaml_bytes')} o on true`
const columns = `s.id as stack_id, s.name as stack_name, s.last_sequence as rev, s.drift,
  o.id as object_id, o.sequence_id, o.is_deletion_marker, o.yaml_checksum, o.yaml_bytes`

export const readDesiredStates = rows(
  'desired_state.readDesiredStates',
  State,
  (p: Slots<{ stack_ids: string[] }>) => `
  select ${columns}, s.deleted_at is not null as is_deleted
  from stacks s ${wantedObject} where s.id = any(${p.stack_ids}::uuid[])`,
)

const LoadedState = z.object({ ...identity, is_deleted: z.boolean(), yaml_sealed: z.instanceof(Buffer).nullable() })
/** Includes the sealed manifest if it is small enough for an inline frame. */
export type LoadedState = z.output<typeof LoadedState>

export const statesWithContent = rows(
  'desired_state.statesWithContent',
  LoadedState,
  (p: Slots<{ stack_ids: string[]; inline_bytes: number }>) => `
  select ${columns}, s.deleted_at is not null as is_deleted,
         (select c.yaml_sealed from deployment_objects c where c.id = o.id and o.yaml_bytes <= ${p.inline_bytes}::int) as yaml_sealed
  from stacks s ${wantedObject} where s.id = any(${p.stack_ids}::uuid[])`,
)

const ListRow = z.object({
  cursor: z.string(),
  is_current: z.boolean(),
  kind: z.enum(['wanted', 'removal']).nullable(),
  ...nullable(identity),
  is_deleted: z.boolean().nullable(),
})
/** Desired state and pending removals of one agent, with the database snapshot that read them and whether it belongs to the given epoch. */
export const listForAgent = rows(
  'desired_state.listForAgent',
  ListRow,
  (p: Slots<{ agent_id: string; epoch: string; boot: string }>) => `
  select pg_current_snapshot()::text as cursor, ${inHistory(p.epoch, p.boot)} as is_current, c.* from (values (1)) as one left join (
    select 'wanted' as kind, ${columns}, false as is_deleted
    from agent_targets t ${joinStack('t.stack_id', 'and deleted_at is null')} ${wantedObject}
    where t.agent_id = ${p.agent_id}::uuid
    union all
    select 'removal', s.id, s.name, s.last_sequence, s.drift, o.id, o.sequence_id, o.is_deletion_marker, o.yaml_checksum, o.yaml_bytes, s.deleted_at is not null
    from agent_stack_status a ${joinStack('a.stack_id')} ${wantedObject}
    where a.agent_id = ${p.agent_id}::uuid and a.phase <> 'removed'
      and not exists (select from agent_targets t where t.agent_id = a.agent_id and t.stack_id = a.stack_id)
  ) as c on true
  order by c.stack_id`,
)
/** A row of a live target. Only the columns of the deployment object may be null, if none was submitted yet. */
export type WantedStack = z.output<z.ZodObject<typeof identity>>

const ScopesRow = z.object({ cursor: z.string(), is_current: z.boolean(), floor_xid: z.string(), stack_ids: z.array(z.string()) })
/** Scopes of an agent and the checks of its cursor in the same database snapshot. */
export const scopesOfAgent = one(
  'desired_state.scopesOfAgent',
  ScopesRow,
  (p: Slots<{ agent_id: string; epoch: string; boot: string }>) => `
  select pg_current_snapshot()::text as cursor, ${inHistory(p.epoch, p.boot)} as is_current, f.floor_xid::text,
         array(select stack_id from agent_targets where agent_id = ${p.agent_id}::uuid)::uuid[] as stack_ids
  from feed_state f`,
)

/** Scopes of labels and annotations, in the form that the triggers of work orders and deliveries write. */
export const markScopes = rows(
  'desired_state.markScopes',
  z.object({ agent_id: z.string(), scope_kind: z.string(), scope_id: z.string() }),
  (p: Slots<{ agent_ids: string[] }>) => `
  select agent_id, 'label' as scope_kind, md5(label)::uuid as scope_id from agent_labels where agent_id = any(${p.agent_ids}::uuid[])
  union all
  select agent_id, 'annotation', md5(key || '=' || value)::uuid from agent_annotations where agent_id = any(${p.agent_ids}::uuid[])`,
)

export const listLiveTargets = rows(
  'desired_state.listLiveTargets',
  z.object({ agent_id: z.string(), stack_id: z.string() }),
  (p: Slots<{ agent_ids: string[]; stack_ids: string[] }>) => `
  select t.agent_id, t.stack_id
  from unnest(${p.agent_ids}::uuid[], ${p.stack_ids}::uuid[]) as w (agent_id, stack_id)
  join agent_targets t on t.agent_id = w.agent_id and t.stack_id = w.stack_id`,
)

function nullable<T extends Record<string, z.ZodType>>(shape: T): { [K in keyof T]: z.ZodNullable<T[K]> } {
  return Object.fromEntries(Object.entries(shape).map(([key, type]) => [key, type.nullable()])) as { [K in keyof T]: z.ZodNullable<T[K]> }
}
