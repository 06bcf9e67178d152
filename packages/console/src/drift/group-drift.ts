// Groups reported drift by field and manager. Pure.
import type { AgentEvent } from '@brokkr/contract/reports/agent-event.ts'

export interface DriftGroup {
  readonly key: string
  readonly field: string
  readonly object: string
  readonly manager: string
  readonly agentIds: readonly string[]
  readonly events: number
  readonly firstAt: string
  readonly lastAt: string
  readonly operation: string
}

export function groupDrift(events: readonly AgentEvent[]): DriftGroup[] {
  const changes = events.flatMap((event) =>
    (event.changes ?? []).map((change) => ({
      agentId: event.agent_id as string,
      at: event.occurred_at ?? event.created_at,
      field: change.path,
      object: `${change.kind} ${change.namespace === undefined ? '' : `${change.namespace}/`}${change.name}`,
      manager: change.manager ?? 'unknown manager',
      operation: change.operation ?? '',
    })),
  )
  const groups = Map.groupBy(changes, ({ field, object, manager }) => `${object} ${field} ${manager}`)
  return [...groups]
    .map(([key, list]) => {
      const times = list.map(({ at }) => at).toSorted()
      const [first] = list
      return {
        key,
        field: first!.field,
        object: first!.object,
        manager: first!.manager,
        operation: first!.operation,
        agentIds: [...new Set(list.map(({ agentId }) => agentId))],
        events: list.length,
        firstAt: times[0]!,
        lastAt: times.at(-1)!,
      }
    })
    .toSorted((a, b) => b.agentIds.length - a.agentIds.length || (a.lastAt < b.lastAt ? 1 : -1))
}
