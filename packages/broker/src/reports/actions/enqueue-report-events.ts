// Enqueues webhook deliveries for reported agent events, in the transaction of the report. Missing sequence numbers are read only if a
// subscription matches.
import type { AgentEvent } from '@brokkr/contract/reports/agent-event.ts'
import type { Sql } from '@brokkr/postgres'
import * as deploymentObjects from '../../deployments/store/deployment-objects.ts'
import { enqueueDeliveries, hasSubscriber } from '../../webhooks/delivery/enqueue.ts'
import { deploymentReported, toWebhookEventTypes } from '../../webhooks/delivery/rules/webhook-events.ts'
import type { SubscriptionCache } from '../../webhooks/subscriptions/subscription-cache.ts'

/** Events of one report, in its order. */
export async function enqueueReportEvents(
  sql: Sql,
  subscriptionCache: SubscriptionCache,
  { events, stackOf }: { events: readonly AgentEvent[]; stackOf: (objectId: string) => string },
): Promise<void> {
  if (events.length === 0 || !(await hasSubscriber(sql, subscriptionCache, events.flatMap(toWebhookEventTypes)))) return
  const idsWithoutSequence = new Set(events.filter(({ sequence_id }) => sequence_id === null).map((event) => event.deployment_object_id))
  const sequences = idsWithoutSequence.size === 0 ? [] : await deploymentObjects.listSequences(sql, { ids: [...idsWithoutSequence] })
  const sequenceById = new Map<string, number>(sequences.map(({ id, sequence_id }) => [id, sequence_id]))
  const webhookEvents = events.flatMap((event) => {
    const id = event.deployment_object_id
    return deploymentReported(event, { stack_id: stackOf(id), sequence_id: sequenceById.get(id) ?? null })
  })
  await enqueueDeliveries(sql, subscriptionCache, webhookEvents)
}
