// Labels of agents and stacks.
import { AgentLabel } from '@brokkr/contract/agents/agent.ts'
import { StackLabel } from '@brokkr/contract/stacks/stack.ts'
import { count, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

/** Inserts all labels at creation in one statement. Times differ by a microsecond, so that "oldest first" keeps their order. */
export const addManyToAgent = count(
  'labels.addManyToAgent',
  (p: Slots<{ agent_id: string; labels: string[] }>) => `
  insert into agent_labels (id, agent_id, label, created_at)
  select gen_random_uuid(), ${p.agent_id}::uuid, label, now() + place * interval '1 microsecond' from unnest(${p.labels}::text[]) with ordinality as l (label, place)`,
)
export const addManyToStack = count(
  'labels.addManyToStack',
  (p: Slots<{ stack_id: string; labels: string[] }>) => `
  insert into stack_labels (id, stack_id, label, created_at)
  select gen_random_uuid(), ${p.stack_id}::uuid, label, now() + place * interval '1 microsecond' from unnest(${p.labels}::text[]) with ordinality as l (label, place)`,
)

// SQL condition that a row has all labels and annotations of a filter; an empty filter matches every row. The matching ids are computed once
// per statement.

export interface LabelFilter {
  readonly labels: string[]
  /** Annotation keys; `values` has the value at the same index. */
  readonly keys: string[]
  readonly values: string[]
}

interface LabelTables {
  readonly labels: 'agent_labels' | 'stack_labels'
  readonly annotations: 'agent_annotations' | 'stack_annotations'
  /** Column of the label tables that references the row, and the expression it must equal. */
  readonly owner: string
  readonly is: string
}

/** The lists must not contain duplicates. */
export const matchesLabels = (p: Slots<LabelFilter>, { labels, annotations, owner, is }: LabelTables): string => `
    (cardinality(${p.labels}::text[]) = 0 or ${is} in (
      select m.${owner} from ${labels} m where m.label = any(${p.labels}::text[]) group by m.${owner} having count(*) = cardinality(${p.labels}::text[])))
    and (cardinality(${p.keys}::text[]) = 0 or ${is} in (
      select m.${owner} from unnest(${p.keys}::text[], ${p.values}::text[]) as w (key, value)
      join ${annotations} m on m.key = w.key and m.value = w.value group by m.${owner} having count(*) = cardinality(${p.keys}::text[])))`

export const ofAgent = rows(
  'labels.ofAgent',
  AgentLabel,
  (p: Slots<{ agent_id: string }>) => `
  select id, agent_id, label from agent_labels where agent_id = ${p.agent_id}::uuid order by created_at, id`,
)
export const ofStack = rows(
  'labels.ofStack',
  StackLabel,
  (p: Slots<{ stack_id: string }>) => `
  select id, stack_id, label from stack_labels where stack_id = ${p.stack_id}::uuid order by created_at, id`,
)

export const addToAgent = one(
  'labels.addToAgent',
  AgentLabel,
  (p: Slots<{ id: string; agent_id: string; label: string }>) => `
  insert into agent_labels (id, agent_id, label) values (${p.id}, ${p.agent_id}, ${p.label}) returning id, agent_id, label`,
)
export const addToStack = one(
  'labels.addToStack',
  StackLabel,
  (p: Slots<{ id: string; stack_id: string; label: string }>) => `
  insert into stack_labels (id, stack_id, label) values (${p.id}, ${p.stack_id}, ${p.label}) returning id, stack_id, label`,
)

export const removeFromAgent = count(
  'labels.removeFromAgent',
  (p: Slots<{ agent_id: string; label: string }>) => `
  delete from agent_labels where agent_id = ${p.agent_id}::uuid and label = ${p.label}`,
)
export const removeFromStack = count(
  'labels.removeFromStack',
  (p: Slots<{ stack_id: string; label: string }>) => `
  delete from stack_labels where stack_id = ${p.stack_id}::uuid and label = ${p.label}`,
)

const Counted = z.object({ held: z.int() })
export const countOfAgent = one(
  'labels.countOfAgent',
  Counted,
  (p: Slots<{ agent_id: string }>) => `select count(*) as held from agent_labels where agent_id = ${p.agent_id}::uuid`,
)
export const countOfStack = one(
  'labels.countOfStack',
  Counted,
  (p: Slots<{ stack_id: string }>) => `select count(*) as held from stack_labels where stack_id = ${p.stack_id}::uuid`,
)
