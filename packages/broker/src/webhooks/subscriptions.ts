// The enabled subscriptions, kept by each process so that an event nobody wants costs no statement. Whoever changes one drops them here,
// the feed drops them in every other process; while the feed is not read they are asked of the database each time.
import { WebhookFilters } from '@brokkr/contract/webhook.ts'
import type { Metrics } from '@brokkr/runtime/metrics.ts'
import type { Subscription } from '../domain/webhook-match.ts'
import type { Sql } from '../store/sql.ts'
import * as webhookSubscriptions from '../store/webhook-subscriptions.ts'

export interface Subscriptions {
  /** Read, if they must be, in the caller's transaction. */
  enabled(sql: Sql): Promise<readonly Subscription[]>
  drop(): void
}
export interface SubscriptionsDeps {
  /** Whether a change would have been heard of. */
  readonly isTrusted: () => boolean
  readonly metrics?: Metrics
}

export function keepSubscriptions({ isTrusted, metrics }: SubscriptionsDeps): Subscriptions {
  const unreadable = metrics?.counter(
    'brokkr_webhook_filters_unreadable_total',
    'Webhook subscriptions read whose filters nobody understands',
  )
  let kept: readonly Subscription[] | null = null
  /** Changes with every drop: what was read before it must not be kept after it. */
  let generation = 0
  return {
    enabled: async (sql) => {
      if (kept !== null && isTrusted()) return kept
      const since = generation
      const read = (await webhookSubscriptions.enabled(sql, {})).map(subscriptionOf)
      for (const { filters } of read) if (filters === 'unreadable') unreadable?.inc()
      if (since === generation) kept = read
      return read
    },
    drop: () => {
      generation += 1
      kept = null
    },
  }
}

/** For programs that live for one action. */
export const freshSubscriptions = (): Subscriptions => keepSubscriptions({ isTrusted: () => false })

function subscriptionOf({ id, event_types, filters }: webhookSubscriptions.EnabledRow): Subscription {
  if (filters === null) return { id, event_types, filters }
  const read = WebhookFilters.safeParse(filters)
  return { id, event_types, filters: read.success ? read.data : 'unreadable' }
}
