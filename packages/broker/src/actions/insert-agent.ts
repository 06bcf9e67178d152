// An agent with its marks and registrations, and at once whatever is aimed at it: the part that creating and joining share.
// Inside the caller's transaction, which holds the lock of targeting.
import * as agents from '../store/agents.ts'
import * as annotationsStore from '../store/annotations.ts'
import * as generators from '../store/generators.ts'
import * as labelsStore from '../store/labels.ts'
import * as registrations from '../store/registrations.ts'
import type { Sql } from '../store/sql.ts'
import { retarget } from './retarget.ts'

export interface AgentMarks {
  readonly labels: string[]
  readonly annotations: Readonly<Record<string, string>>
  /** All of them live. */
  readonly generatorIds: readonly string[]
}

export async function insertAgent(sql: Sql, row: Parameters<typeof agents.insert>[1], marks: AgentMarks): Promise<void> {
  const agent_id = row.id
  await agents.insert(sql, row)
  // Every agent takes the system generator's stacks.
  const system = await generators.system(sql, {})
  const generator_ids = [...marks.generatorIds, ...(system === null ? [] : [system.id])]
  await registrations.insertMany(sql, { agent_id, generator_ids })
  await labelsStore.addManyToAgent(sql, { agent_id, labels: marks.labels })
  const annotations = Object.entries(marks.annotations)
  const [keys, values] = [annotations.map(([key]) => key), annotations.map(([, value]) => value)]
  await annotationsStore.addManyToAgent(sql, { agent_id, keys, values })
  await retarget(sql, { agentId: agent_id })
}
