// Reads agent events that a list statement selected. Lists select only ids and sizes, so that a page is cut before its content is read.
import type { AgentEvent } from '@brokkr/contract/reports/agent-event.ts'
import type { Sql } from '@brokkr/postgres'
import * as agentEvents from '../store/agent-events.ts'

/** Keeps the order of `entries`. Leaves out events that were deleted after the list was read. */
export async function readAgentEvents({ sql }: { sql: Sql }, entries: readonly { id: string }[]): Promise<AgentEvent[]> {
  const ids = entries.map(({ id }) => id)
  const eventsById = new Map<string, AgentEvent>((await agentEvents.among(sql, { ids })).map((event) => [event.id, event]))
  return ids.flatMap((id) => eventsById.get(id) ?? [])
}
