// A subscription as the API shows it: whether it has an address and a credential, never their values.

import { findUnknownPatterns } from '@brokkr/contract/webhooks/event-types.ts'
import { type Webhook, WebhookFilters } from '@brokkr/contract/webhooks/subscription.ts'

export interface SubscriptionFacts {
  readonly id: string
  readonly name: string
  readonly has_auth_header: boolean
  readonly event_types: string[]
  readonly filters: unknown
  readonly target_labels: string[] | null
  readonly enabled: boolean
  readonly max_retries: number
  readonly timeout_seconds: number
  readonly created_by: string | null
  readonly created_at: string
  readonly updated_at: string
}

export function toWebhook({ filters, ...row }: SubscriptionFacts): Webhook {
  const read = WebhookFilters.safeParse(filters)
  return { ...row, has_url: true, filters: read.success ? read.data : null, unknown_event_types: findUnknownPatterns(row.event_types) }
}
