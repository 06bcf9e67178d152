// Annotations of agents and of stacks: one value per key; pairs that are equal on both sides make a target.
import { count, type Slots } from './sql.ts'

export const addManyToAgent = count(
  'annotations.addManyToAgent',
  (p: Slots<{ agent_id: string; keys: string[]; values: string[] }>) => `
  insert into agent_annotations (id, agent_id, key, value)
  select gen_random_uuid(), ${p.agent_id}::uuid, key, value from unnest(${p.keys}::text[], ${p.values}::text[]) as a (key, value)`,
)
export const addManyToStack = count(
  'annotations.addManyToStack',
  (p: Slots<{ stack_id: string; keys: string[]; values: string[] }>) => `
  insert into stack_annotations (id, stack_id, key, value)
  select gen_random_uuid(), ${p.stack_id}::uuid, key, value from unnest(${p.keys}::text[], ${p.values}::text[]) as a (key, value)`,
)
