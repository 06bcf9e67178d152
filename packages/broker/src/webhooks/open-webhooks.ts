// Everything that sends webhooks, put together: where it may send to, the client, what opens sealed parts, and the sender.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics.ts'
import type { Outbound, OutboundOptions } from '@brokkr/runtime/outbound.ts'
import type { Seal } from '../seal.ts'
import type { Sql } from '../store/sql.ts'
import { createReceivers, type Receivers } from './receivers.ts'
import { createPartsOpener, type PartsOpener } from './sealed-parts.ts'
import { createSender, type Sender } from './sender.ts'

/** As they are set now: read at every use, for they may change while the broker runs. */
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
  const outbound = outboundWhenUsed({ allow: receivers.allow, connectionsPerOrigin, userAgent })
  const opener = createPartsOpener(deps)
  const limits = {
    batchSize: () => settings.webhook_delivery_batch_size,
    concurrency: () => settings.webhook_delivery_concurrency,
    perSubscription: () => settings.webhook_delivery_per_subscription,
  }
  return { receivers, outbound, opener, sender: createSender({ ...deps, opener, outbound }, limits) }
}

/** The HTTP client is loaded with the first message: a broker that nobody subscribed to need not hold it in memory. */
function outboundWhenUsed(options: OutboundOptions): Outbound {
  let opening: Promise<Outbound> | null = null
  const opened = () => (opening ??= import('@brokkr/runtime/outbound.ts').then(({ createOutbound }) => createOutbound({}, options)))
  return {
    request: async (request) => (await opened()).request(request),
    open: async (request) => (await opened()).open(request),
    close: async () => (await opening)?.close(),
  }
}
