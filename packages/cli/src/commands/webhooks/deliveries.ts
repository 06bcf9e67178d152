// Deliveries of webhooks as rows.
import type { WebhookDelivery } from '@brokkr/contract/webhooks/subscription.ts'
import { age } from '../../output.ts'

export const deliveryHead: readonly string[] = ['EVENT', 'STATUS', 'TRIES', 'ANSWER', 'NEXT TRY', 'AGE', 'ERROR']

export const deliveryRow = (one: WebhookDelivery): string[] => [
  one.event_type,
  one.status,
  String(one.attempts),
  String(one.last_status_code ?? '-'),
  one.next_retry_at === null ? '-' : one.next_retry_at.slice(0, 19),
  age(one.created_at),
  one.last_error ?? '-',
]
