// Annotations of agents and stacks: one value per key. Equal annotations on both sides create a target.
import { AgentAnnotation } from '@brokkr/contract/agents/agent.ts'
import { StackAnnotation } from '@brokkr/contract/stacks/stack.ts'
import { count, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

export const ofAgent = rows(
  'annotations.ofAgent',
  AgentAnnotation,
  (p: Slots<{ agent_id: string }>) => `
  select id, agent_id, key, value from agent_annotations where agent_id = ${p.agent_id}::uuid order by key`,
)

export const addToAgent = one(
  'annotations.addToAgent',
  AgentAnnotation,
  (p: Slots<{ id: string; agent_id: string; key: string; value: string }>) => `
  insert into agent_annotations (id, agent_id, key, value) values (${p.id}, ${p.agent_id}, ${p.key}, ${p.value}) returning id, agent_id, key, value`,
)

export const ofStack = rows(
  'annotations.ofStack',
  StackAnnotation,
  (p: Slots<{ stack_id: string }>) => `
  select id, stack_id, key, value from stack_annotations where stack_id = ${p.stack_id}::uuid order by key`,
)

export const addToStack = one(
  'annotations.addToStack',
  StackAnnotation,
  (p: Slots<{ id: string; stack_id: string; key: string; value: string }>) => `
  insert into stack_annotations (id, stack_id, key, value) values (${p.id}, ${p.stack_id}, ${p.key}, ${p.value}) returning id, stack_id, key, value`,
)

export const removeFromStack = count(
  'annotations.removeFromStack',
  (p: Slots<{ stack_id: string; key: string }>) => `
  delete from stack_annotations where stack_id = ${p.stack_id}::uuid and key = ${p.key}`,
)

export const removeFromAgent = count(
  'annotations.removeFromAgent',
  (p: Slots<{ agent_id: string; key: string }>) => `
  delete from agent_annotations where agent_id = ${p.agent_id}::uuid and key = ${p.key}`,
)

const Counted = z.object({ held: z.int() })
export const countOfAgent = one(
  'annotations.countOfAgent',
  Counted,
  (p: Slots<{ agent_id: string }>) => `select count(*) as held from agent_annotations where agent_id = ${p.agent_id}::uuid`,
)

export const countOfStack = one(
  'annotations.countOfStack',
  Counted,
  (p: Slots<{ stack_id: string }>) => `select count(*) as held from stack_annotations where stack_id = ${p.stack_id}::uuid`,
)

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
