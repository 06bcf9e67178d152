// Tells webhooks what agents reported, in the report's own transaction. What a report does not say of itself is looked up only when
// somebody wants to know.
import type { AgentEvent } from '@brokkr/contract/event.ts'
import { deploymentReported, typesOf } from '../domain/webhook-events.ts'
import * as deploymentObjects from '../store/deployment-objects.ts'
import type { Sql } from '../store/sql.ts'
import { enqueue, isWanted } from '../webhooks/enqueue.ts'
import type { Subscriptions } from '../webhooks/subscriptions.ts'

/** Of one report, in its order. */
export async function tellOfReports(
  sql: Sql,
  hooks: Subscriptions,
  { events, stackOf }: { events: readonly AgentEvent[]; stackOf: (objectId: string) => string },
): Promise<void> {
  if (events.length === 0 || !(await isWanted(sql, hooks, events.flatMap(typesOf)))) return
  const unnumbered = new Set(events.filter(({ sequence_id }) => sequence_id === null).map((event) => event.deployment_object_id))
  const numbers = unnumbered.size === 0 ? [] : await deploymentObjects.sequencesOf(sql, { ids: [...unnumbered] })
  const numberOf = new Map<string, number>(numbers.map(({ id, sequence_id }) => [id, sequence_id]))
  const told = events.flatMap((event) => {
    const id = event.deployment_object_id
    return deploymentReported(event, { stack_id: stackOf(id), sequence_id: numberOf.get(id) ?? null })
  })
  await enqueue(sql, hooks, told)
}
