// Inserts an agent with its labels, annotations and registrations. Shared by creating and joining; runs in the caller's transaction,
// which calls `targetNewAgent` last.

import type { Sql } from '@brokkr/postgres'
import * as generators from '../../generators/store/generators.ts'
import * as registrations from '../../generators/store/registrations.ts'
import { changeAgent } from '../../targeting/actions/retarget.ts'
import * as annotationsStore from '../../targeting/store/annotations.ts'
import * as labelsStore from '../../targeting/store/labels.ts'
import * as agents from '../store/agents.ts'

export interface AgentLabels {
  readonly labels: string[]
  readonly annotations: Readonly<Record<string, string>>
  /** Must be live. */
  readonly generatorIds: readonly string[]
}

export async function insertAgent(sql: Sql, row: Parameters<typeof agents.insert>[1], assigned: AgentLabels): Promise<void> {
  const agent_id = row.id
  await agents.insert(sql, row)
  // Every agent is registered with the system generator.
  const system = await generators.system(sql, {})
  const generator_ids = [...assigned.generatorIds, ...(system === null ? [] : [system.id])]
  await registrations.insertMany(sql, { agent_id, generator_ids })
  await labelsStore.addManyToAgent(sql, { agent_id, labels: assigned.labels })
  const annotations = Object.entries(assigned.annotations)
  const [keys, values] = [annotations.map(([key]) => key), annotations.map(([, value]) => value)]
  await annotationsStore.addManyToAgent(sql, { agent_id, keys, values })
}

/** An agent without labels and annotations matches no stack, so no targeting lock is needed. */
export async function targetNewAgent(sql: Sql, agentId: string, { labels, annotations }: Omit<AgentLabels, 'generatorIds'>): Promise<void> {
  if (labels.length === 0 && Object.keys(annotations).length === 0) return
  await changeAgent(sql, agentId, [], async () => undefined)
}
