// Resource trees: the latest one per agent and stack. Nodes are stored as an object by uid.

import { TreeNode } from '@brokkr/contract/stacks/resource-tree.ts'
import { AgentId } from '@brokkr/contract/wire.ts'
import { count, maybe, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

type Tree = { agent_id: string; stack_id: string; rev: number; nodes: string }

/** Changes nothing if the stored tree has a newer rev. */
export const replace = count(
  'agent_stack_inventory.replace',
  (p: Slots<Tree>) => `
  insert into agent_stack_inventory as i (agent_id, stack_id, rev, nodes, bytes)
  values (${p.agent_id}::uuid, ${p.stack_id}::uuid, ${p.rev}::bigint, ${p.nodes}::jsonb, octet_length((${p.nodes}::jsonb)::text))
  on conflict (agent_id, stack_id) do update
    set rev = excluded.rev, nodes = excluded.nodes, bytes = excluded.bytes, observed_at = now() where i.rev <= excluded.rev`,
)

/** The stored rev; the row stays locked until the transaction ends. */
export const lock = maybe(
  'agent_stack_inventory.lock',
  z.object({ rev: z.int(), node_count: z.int() }),
  (p: Slots<{ agent_id: string; stack_id: string }>) => `
  select rev, (select count(*) from jsonb_object_keys(nodes)) as node_count from agent_stack_inventory where agent_id = ${p.agent_id}::uuid and stack_id = ${p.stack_id}::uuid for update`,
)

export const merge = one(
  'agent_stack_inventory.merge',
  z.object({ node_count: z.int() }),
  (p: Slots<Tree & { removed_uids: string[] }>) => `
  update agent_stack_inventory i set rev = ${p.rev}::bigint, nodes = merged.nodes, bytes = octet_length(merged.nodes::text), observed_at = now()
  from (select (nodes - ${p.removed_uids}::text[]) || ${p.nodes}::jsonb as nodes from agent_stack_inventory
        where agent_id = ${p.agent_id}::uuid and stack_id = ${p.stack_id}::uuid) merged
  where i.agent_id = ${p.agent_id}::uuid and i.stack_id = ${p.stack_id}::uuid
  returning (select count(*) from jsonb_object_keys(merged.nodes)) as node_count`,
)

const Row = z.object({
  agent_id: AgentId,
  rev: z.int(),
  observed_at: z.string(),
  nodes: z.record(z.string(), TreeNode),
  bytes: z.int(),
})
/** Trees of live agents that have the stack or still have to remove it. A page ends behind the tree with which it exceeds 8 MiB. */
export const list = rows(
  'agent_stack_inventory.list',
  Row,
  (p: Slots<{ stack_id: string; agent_id: string | null; after_agent: string; limit: number }>) => `
  select m.agent_id, m.rev, m.observed_at, i.nodes, m.bytes from (
    select agent_id, rev, observed_at, bytes, sum(bytes) over (order by agent_id) - bytes as bytes_before from (
      select i.agent_id, i.rev, i.observed_at, i.bytes from agent_stack_inventory i join agents a on a.id = i.agent_id and a.deleted_at is null
      where i.stack_id = ${p.stack_id}::uuid and i.agent_id > ${p.after_agent}::uuid
        and (${p.agent_id}::uuid is null or i.agent_id = ${p.agent_id})
        and (exists (select from agent_targets t where t.agent_id = i.agent_id and t.stack_id = i.stack_id)
          or exists (select from agent_stack_status s where s.agent_id = i.agent_id and s.stack_id = i.stack_id and s.phase <> 'removed'))
      order by i.agent_id limit ${p.limit}::int) page) m
  join agent_stack_inventory i on i.agent_id = m.agent_id and i.stack_id = ${p.stack_id}::uuid
  where m.bytes_before <= 8388608 order by m.agent_id`,
)

/** Trees of a deleted agent. */
export const forgetAgent = count(
  'agent_stack_inventory.forgetAgent',
  (p: Slots<{ agent_id: string }>) => `delete from agent_stack_inventory where agent_id = ${p.agent_id}::uuid`,
)

/** Trees that were reported while their agent was deleted. */
export const removeOfDeletedAgents = count(
  'agent_stack_inventory.removeOfDeletedAgents',
  (p: Slots<{ limit: number }>) => `
  delete from agent_stack_inventory where agent_id = any(array(
    select a.id from agents a where a.deleted_at is not null
      and exists (select from agent_stack_inventory i where i.agent_id = a.id) order by a.deleted_at desc limit ${p.limit}::int))`,
)

/** Trees of stacks that their agent has removed. */
export const removeRemoved = count(
  'agent_stack_inventory.removeRemoved',
  (p: Slots<{ limit: number }>) => `
  delete from agent_stack_inventory where (agent_id, stack_id) in (
    select i.agent_id, i.stack_id from agent_stack_status s join agent_stack_inventory i on i.agent_id = s.agent_id and i.stack_id = s.stack_id
    where s.phase = 'removed' and s.received_at < now() - interval '10 minutes'
      and not exists (select from agent_targets t where t.agent_id = s.agent_id and t.stack_id = s.stack_id)
    order by s.received_at limit ${p.limit}::int)`,
)
