// Dependencies of handlers. Built once in main.ts; each action declares the subset that it uses.
import type { PakForm } from '@brokkr/contract/auth/pak.ts'
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { LiveConfig } from '@brokkr/runtime/config/live-config.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { ConfigReloader } from './admin/actions/reload-config.ts'
import type { ChangeFeed } from './change-feed/change-feed.ts'
import type { BrokerConfig } from './config.ts'
import type { ManifestCache } from './deployments/manifest-cache.ts'
import type { ManifestWork } from './deployments/rules/manifest-job.ts'
import type { Forwarder } from './forward/forwarder.ts'
import type { SessionCookie } from './http/authentication/session-cookie.ts'
import type { Live } from './live/open-live.ts'
import type { Seal } from './seal.ts'
import type { ReadOverview } from './stacks/actions/read-overview.ts'
import type { TemplateWork } from './templates/rules/template-job.ts'
import type { Webhooks } from './webhooks/delivery/open-webhooks.ts'
import type { SubscriptionCache } from './webhooks/subscriptions/subscription-cache.ts'
import type { WorkOrderMetrics } from './work-orders/actions/claim-work-order.ts'

export interface BrokerDeps {
  readonly sql: Sql
  readonly seal: Seal
  readonly texts: ManifestCache
  readonly feed: ChangeFeed
  /** Enabled webhook subscriptions. */
  readonly subscriptionCache: SubscriptionCache
  /** Live sockets of agents and readers. */
  readonly live: Live
  /** Sends webhook deliveries. */
  readonly webhooks: Webhooks
  /** Sends requests to the pipelines and preview programs. */
  readonly forwarder: Forwarder
  /** Observes claims of work orders. */
  readonly workOrders: WorkOrderMetrics
  readonly wakeFeed: (stackId?: string) => void
  /** Drops a credential from the cache of this process at once; other processes drop it by the change feed. */
  readonly dropCredential: (kind: 'agent' | 'generator', id: string) => void
  readonly readOverview: ReadOverview
  readonly readCursor: ChangeFeed['readCursor']
  readonly manifests: ManifestWork
  readonly templates: TemplateWork
  readonly config: BrokerConfig
  /** Settings with their sources, for GET /admin/config. */
  readonly liveConfig: LiveConfig<BrokerConfig>
  readonly reloader: ConfigReloader
  readonly tasks: () => readonly { readonly name: string; readonly everyMs: () => number }[]
  readonly clock: Clock
  readonly cookie: SessionCookie
  /** Form of new PAKs. */
  readonly pakForm: PakForm
  readonly log: Log
}
