// Composition of webhook delivery: allowed receivers, outbound client, opener of sealed parts, and sender.
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Outbound } from '@brokkr/runtime/http-client/outbound-client.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import { createLazyOutbound } from '../../forward/forwarder.ts'
import type { Seal } from '../../seal.ts'
import { createPartsOpener, type PartsOpener } from '../subscriptions/sealed-parts.ts'
import { createReceivers, type Receivers } from './receivers.ts'
import { createSender, type Sender } from './sender.ts'

/** Read at every use, because they may change while the broker runs. */
export interface WebhookSettings {
  readonly webhook_delivery_batch_size: number
  readonly webhook_delivery_concurrency: number
  readonly webhook_delivery_per_subscription: number
  readonly webhook_allowed_cidrs: readonly string[]
  readonly webhook_allowed_hosts: readonly string[]
}
export interface Webhooks {
  readonly receivers: Receivers
  readonly outbound: Outbound
  readonly opener: PartsOpener
  readonly sender: Sender
}

export function openWebhooks(
  deps: { sql: Sql; seal: Seal; clock: Clock; log: Log; metrics: Metrics },
  { settings, userAgent }: { settings: WebhookSettings; userAgent: string },
): Webhooks {
  const receivers = createReceivers({ cidrs: () => settings.webhook_allowed_cidrs, hosts: () => settings.webhook_allowed_hosts })
  const connectionsPerOrigin = settings.webhook_delivery_concurrency
  const outbound = createLazyOutbound({ allow: receivers.allow, connectionsPerOrigin, userAgent })
  const opener = createPartsOpener(deps)
  const limits = {
    batchSize: () => settings.webhook_delivery_batch_size,
    concurrency: () => settings.webhook_delivery_concurrency,
    perSubscription: () => settings.webhook_delivery_per_subscription,
  }
  return { receivers, outbound, opener, sender: createSender({ ...deps, opener, outbound }, limits) }
}
