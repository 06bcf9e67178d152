// Opens the change feed with the caches that it keeps current. `feed.start()` is called once every subscriber is connected.
import { type ChangeFeed, createChangeFeed } from '../change-feed/change-feed.ts'
import { createManifestCache, type ManifestCache } from '../deployments/manifest-cache.ts'
import { openPool } from '../open-database.ts'
import { createSubscriptionCache, type SubscriptionCache } from '../webhooks/subscriptions/subscription-cache.ts'
import type { StartContext } from './context.ts'
import type { Store } from './open-store.ts'

export interface Feed {
  readonly feed: ChangeFeed
  readonly wakeFeed: ChangeFeed['wake']
  readonly readCursor: ChangeFeed['readCursor']
  readonly texts: ManifestCache
  readonly subscriptionCache: SubscriptionCache
}

export function openFeed({ config, clock, log, metrics, processName, onClose, sql, seal }: StartContext & Store): Feed {
  const snapshotSql = openPool(config, { poolSize: config.feed.snapshot_connections, log })
  onClose('snapshot connections', () => snapshotSql.close())
  const texts = createManifestCache({ seal, clock })
  onClose('texts', () => texts.forget())
  const feed = createChangeFeed({
    database: sql,
    snapshotSql,
    texts,
    clock,
    log,
    metrics,
    schema: config.database.schema,
    settings: config.feed,
    objectBytesMax: config.limits.object_body_bytes,
    brokerName: processName,
  })
  onClose('feed', () => feed.stop())
  const subscriptionCache = createSubscriptionCache({ isTrusted: () => feed.getTrouble() === null, metrics })
  feed.onCredentialsInDoubt(() => subscriptionCache.drop())
  feed.onCredentialChange((kind) => {
    if (kind === 'webhook_subscription') subscriptionCache.drop()
  })
  return { feed, wakeFeed: feed.wake, readCursor: feed.readCursor, texts, subscriptionCache }
}
