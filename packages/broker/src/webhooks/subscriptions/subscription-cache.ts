// Cache of enabled subscriptions per process, so that an event without subscribers costs no statement. An action that changes one drops the
// cache of its process; the change feed drops it in the others. While the feed is not trusted every call reads the database.
import { WebhookFilters } from '@brokkr/contract/webhooks/subscription.ts'
import type { Sql } from '@brokkr/postgres'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import type { Subscription } from '../delivery/rules/webhook-events.ts'
import * as webhookSubscriptions from './store/webhook-subscriptions.ts'

export interface SubscriptionCache {
  /** Reads the database in the caller's transaction if necessary. */
  enabled(sql: Sql): Promise<readonly Subscription[]>
  drop(): void
}
export interface SubscriptionsDeps {
  /** Whether the change feed would have reported a change. */
  readonly isTrusted: () => boolean
  readonly metrics?: Metrics
}

export function createSubscriptionCache({ isTrusted, metrics }: SubscriptionsDeps): SubscriptionCache {
  const unreadable = metrics?.counter(
    'brokkr_webhook_filters_unreadable_total',
    'Webhook subscriptions read whose filters nobody understands',
  )
  let cached: readonly Subscription[] | null = null
  /** Incremented by every drop, so that an older read is not cached after it. */
  let generation = 0
  return {
    enabled: async (sql) => {
      if (cached !== null && isTrusted()) return cached
      const readGeneration = generation
      const read = (await webhookSubscriptions.enabled(sql, {})).map(toSubscription)
      for (const { filters } of read) if (filters === 'unreadable') unreadable?.inc()
      if (readGeneration === generation) cached = read
      return read
    },
    drop: () => {
      generation += 1
      cached = null
    },
  }
}

/** Uncached, for programs that run one action. */
export const freshSubscriptions = (): SubscriptionCache => createSubscriptionCache({ isTrusted: () => false })

function toSubscription({ id, event_types, filters }: webhookSubscriptions.EnabledRow): Subscription {
  if (filters === null) return { id, event_types, filters }
  const read = WebhookFilters.safeParse(filters)
  return { id, event_types, filters: read.success ? read.data : 'unreadable' }
}
