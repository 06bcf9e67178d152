// Desired state for polling agents: the wanted object of each targeted stack, and deletion markers of stacks that the agent has not removed yet.
import { rows, type Slot, type Slots } from '@brokkr/postgres'
import { z } from 'zod'
import { selectWanted } from '../../deployments/store/deployment-objects.ts'
import { joinStack } from '../../stacks/store/join-stack.ts'

const Item = z.object({
  stack_name: z.string(),
  rev: z.int(),
  drift: z.enum(['heal', 'report', 'off']),
  id: z.string(),
  stack_id: z.string(),
  sequence_id: z.int(),
  yaml_bytes: z.int(),
  yaml_checksum: z.string(),
  is_deletion_marker: z.boolean(),
  submitted_at: z.string(),
  created_at: z.string(),
  updated_at: z.string(),
  deleted_at: z.string().nullable(),
  rollback_of: z.string().nullable(),
})
export type ListedItem = z.output<typeof Item>

const columns = `s.name as stack_name, s.last_sequence as rev, s.drift, o.*`
const head = `cross join lateral ${selectWanted(
  'id, stack_id, sequence_id, yaml_bytes, yaml_checksum, is_deletion_marker, submitted_at, created_at, updated_at, deleted_at, rollback_of',
)} o`

const wantedBy = (agentId: Slot) => `
    select ${columns} from agent_targets t ${joinStack('t.stack_id', 'and deleted_at is null')} ${head} where t.agent_id = ${agentId}::uuid
    union all
    select ${columns} from agent_stack_status a ${joinStack('a.stack_id')} ${head}
    where a.agent_id = ${agentId}::uuid and a.phase <> 'removed' and o.is_deletion_marker
      and not exists (select from agent_targets t where t.agent_id = a.agent_id and t.stack_id = a.stack_id)`
const inOrder = 'order by w.sequence_id desc, w.submitted_at desc, w.id'

/** Everything but the manifests. */
export const list = rows(
  'target_state.list',
  Item,
  (p: Slots<{ agent_id: string }>) => `
  select w.* from (${wantedBy(p.agent_id)}
  ) w ${inOrder}`,
)

/** Without deployment objects that the agent acknowledged, whether with success or failure. */
export const listNew = rows(
  'target_state.listNew',
  Item,
  (p: Slots<{ agent_id: string }>) => `
  select w.* from (${wantedBy(p.agent_id)}
  ) w
  where not exists (select from agent_object_acks k where k.agent_id = ${p.agent_id}::uuid and k.deployment_object_id = w.id)
  ${inOrder}`,
)

/** Sealed manifests by immutable id. */
export const listSealed = rows(
  'target_state.listSealed',
  z.object({ id: z.string(), sealed: z.instanceof(Buffer) }),
  (p: Slots<{ ids: string[] }>) => `
  select id, yaml_sealed as sealed from deployment_objects where id = any(${p.ids}::uuid[])`,
)
