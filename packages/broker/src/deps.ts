// What handlers are given: built once in main.ts, narrowed by each action to what it uses.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { LoadedConfig } from '@brokkr/runtime/config.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { ReadOverview } from './actions/read-overview.ts'
import type { BrokerConfig } from './config.ts'
import type { ManifestWork } from './domain/manifest-job.ts'
import type { Feed } from './feed/feed.ts'
import type { SessionCookie } from './http/session-cookie.ts'
import type { RevisionTexts } from './revision-texts.ts'
import type { Seal } from './seal.ts'
import type { Sql } from './store/sql.ts'
import type { Webhooks } from './webhooks/open-webhooks.ts'
import type { Subscriptions } from './webhooks/subscriptions.ts'

export interface BrokerDeps {
  readonly sql: Sql
  readonly seal: Seal
  readonly texts: RevisionTexts
  readonly feed: Feed
  /** Who is told of what actions do. */
  readonly hooks: Subscriptions
  /** How receivers are reached. */
  readonly webhooks: Webhooks
  readonly wakeFeed: (stackId?: string) => void
  /** Lets go of a key in this process at once; the others learn it from the feed. */
  readonly dropCredential: (kind: 'agent' | 'generator', id: string) => void
  readonly readOverview: ReadOverview
  readonly readCursor: Feed['readCursor']
  readonly manifests: ManifestWork
  readonly config: BrokerConfig
  /** The same settings with their sources, for people. */
  readonly settings: LoadedConfig<BrokerConfig>
  readonly tasks: () => readonly { readonly name: string; readonly everyMs: () => number }[]
  readonly clock: Clock
  readonly cookie: SessionCookie
  readonly log: Log
}
