// The broker as a program: configuration → listener (probes only) → database → migrations → first rows → feed → routes.
// Composition only; each opening registers its closing beside it.
import { hostname } from 'node:os'
import { startAdminServer } from '@brokkr/runtime/admin-server.ts'
import { type Clock, systemClock } from '@brokkr/runtime/clock.ts'
import { type LoadedConfig, loadConfig } from '@brokkr/runtime/config.ts'
import { ConfigError } from '@brokkr/runtime/config-error.ts'
import { watchEventLoopDelay } from '@brokkr/runtime/event-loop-delay.ts'
import { createLifecycle } from '@brokkr/runtime/lifecycle.ts'
import { createLog, type Log } from '@brokkr/runtime/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics.ts'
import { checkStart } from '@brokkr/runtime/start-checks.ts'
import { createOverviewReader } from './actions/read-overview.ts'
import type { Deed } from './audit.ts'
import { createAuditWriter } from './audit-writer.ts'
import { bootstrap } from './bootstrap.ts'
import { type BrokerConfig, brokerTable, checkBrokerConfig, isTls, listenHost, tlsFilesOf } from './config.ts'
import type { BrokerDeps } from './deps.ts'
import { type Actor, systemActor } from './domain/actor.ts'
import { startFeed } from './feed/feed.ts'
import { keepGauges } from './gauges.ts'
import { type AuthFailure, createAuthenticator } from './http/auth.ts'
import type { CredentialKind } from './http/credential-cache.ts'
import { fromDatabase } from './http/database-error.ts'
import { createIdempotency } from './http/idempotency.ts'
import { createThings } from './http/lookups.ts'
import { actorOf } from './http/routes/actor.ts'
import { handlers } from './http/routes/index.ts'
import type { Denied } from './http/serve.ts'
import { startHttp } from './http/server.ts'
import { sessionCookie } from './http/session-cookie.ts'
import { statusPage } from './http/status-page.ts'
import { guardKeyFile } from './key-file.ts'
import { createManifestWork } from './manifest-work.ts'
import { openPool, openStore } from './open-store.ts'
import { createReadiness } from './readiness.ts'
import { createRevisionTexts } from './revision-texts.ts'
import { watchSampleKeys } from './sample-key-watch.ts'
import * as adminRole from './store/admin-role.ts'
import * as agentInvites from './store/agent-invites.ts'
import * as consoleSessions from './store/console-sessions.ts'
import * as credentials from './store/credentials.ts'
import { listTasks, type TaskSettings } from './tasks/index.ts'
import { startTasks } from './tasks/run-tasks.ts'
import { createUsageWriter } from './usage-writer.ts'
import { version } from './version.ts'
import { openWebhooks } from './webhooks/open-webhooks.ts'
import { keepSubscriptions } from './webhooks/subscriptions.ts'

/** `brokkr broker`: reads the configuration, serves until a signal ends it. */
export async function runBroker(options: { env: NodeJS.ProcessEnv; flags?: Record<string, unknown>; clock?: Clock }): Promise<void> {
  checkStart()
  try {
    const config = await loadConfig({
      table: brokerTable,
      env: options.env,
      flags: options.flags ?? {},
      ignoredSections: ['agent', 'cli'],
      check: checkBrokerConfig,
      makeMissing: true,
    })
    const log = createLog({ name: 'brokkr-broker', level: config.value.log.level, format: config.value.log.format })
    const lifecycle = createLifecycle({ log }, { graceMs: config.value.server.shutdown_seconds * 1000 })
    lifecycle.listenForSignals()
    const broker = await startBroker(config, { log, onClose: lifecycle.onClose.bind(lifecycle), clock: options.clock ?? systemClock })
    log.info('broker ready', { address: broker.address })
    await lifecycle.closed
  } catch (error) {
    // One clear line, whatever failed: a configuration problem lists everything that is wrong.
    process.stderr.write(`brokkr broker did not start: ${error instanceof Error ? error.message : String(error)}\n`)
    process.exit(error instanceof ConfigError ? wrongStart : 1)
  }
}

/** The way it was started is wrong: starting it again will not help. */
const wrongStart = 2

export interface StartDeps {
  readonly log: Log
  readonly onClose: (name: string, close: () => Promise<void> | void) => void
  readonly clock: Clock
}

export async function startBroker(settings: LoadedConfig<BrokerConfig>, { log, onClose, clock }: StartDeps): Promise<{ address: string }> {
  const config = settings.value
  const metrics = createMetrics({ processMetrics: true })
  const cookie = sessionCookie({ isTls: isTls(config.server) })
  let trouble: () => Promise<string | null> = async () => 'starting'
  let poolWaitMs: () => number = () => 0
  const eventLoop = watchEventLoopDelay({ clock, metrics })
  onClose('event loop watch', () => eventLoop.stop())
  const tls = tlsFilesOf(config)
  // The listener comes first, so that probes see a process that is alive while it waits for its database.
  const http = await startHttp(
    {
      clock,
      log,
      metrics,
      ready: () => trouble(),
      page: statusPage,
      load: { delayMs: () => eventLoop.p99Ms(), poolWaitMs: () => poolWaitMs() },
    },
    {
      host: listenHost(config),
      port: config.server.port,
      version,
      trustedProxies: config.server.trusted_proxies,
      scheme: cookie.scheme,
      limits: httpLimits(config),
      overload: { delayMs: config.limits.event_loop_delay_ms, poolWaitMs: config.limits.pool_wait_seconds * 1000 },
      cors: () => config.cors,
      tls,
      serveMetrics: config.metrics.port === null,
    },
  )
  try {
    if (config.metrics.port !== null) {
      const admin = await startAdminServer({ host: listenHost(config), port: config.metrics.port, ready: () => trouble(), metrics, log })
      onClose('metrics', () => admin.close())
    }
    const { database, seal } = await openStore({ clock, log, metrics }, config, async (sql) => {
      const { adminPakFile } = await bootstrap({ sql }, config.broker)
      if (adminPakFile !== null) log.info('first admin key written', { file: adminPakFile })
    })
    onClose('database', () => database.close())
    poolWaitMs = () => database.pool.oldestWaitMs
    keepGauges({ sql: database, clock, log, metrics }, { version })
    const audit = createAuditWriter(
      { sql: database, clock, log, metrics },
      { flushMs: config.broker.audit_flush_ms, batchRows: config.broker.audit_batch_size },
    )
    onClose('audit', () => audit.close())
    const usage = createUsageWriter(
      { sql: database, clock, log },
      { flushMs: 5_000, sessionIdleSeconds: config.broker.session_idle_seconds },
    )
    onClose('usage', () => usage.close())
    const owner = `${hostname()}-${process.pid}`
    const snapshotSql = openPool(config, { poolSize: config.feed.snapshot_connections, log })
    onClose('snapshot connections', () => snapshotSql.close())
    const hooks = keepSubscriptions({ isTrusted: () => feed.trouble() === null, metrics })
    const texts = createRevisionTexts({ seal, clock })
    onClose('texts', () => texts.forget())
    const feed = startFeed({
      database,
      snapshotSql,
      texts,
      clock,
      log,
      metrics,
      schema: config.database.schema,
      settings: config.feed,
      objectBytesMax: config.limits.object_body_bytes,
      brokerName: owner,
      onTask: (kind) => tasks.wake(kind.replaceAll('_', '-')),
      onCredentialsInDoubt: () => {
        authenticator.dropAll()
        hooks.drop()
      },
      onCredential: (kind, id) => {
        authenticator.dropCredential(kind as CredentialKind, id)
        if (kind === 'admin') sampleKeys?.wake()
        if (kind === 'webhook_subscription') hooks.drop()
      },
    })
    onClose('feed', () => feed.stop())
    const isLiveKey = async (hash: string) => (await adminRole.countLiveAmong(database, { hashes: [hash] })).live > 0
    const wasUsed = async () => (await adminRole.wasUsed(database, {})).used
    const { admin_pak_file: path, admin_pak_file_seconds: seconds } = config.broker
    const keyFile = await guardKeyFile({ clock, log, isLiveKey, wasUsed }, { path, lifeMs: seconds * 1000 })
    onClose('admin key file', () => keyFile.close())
    const sampleKeys = watchSampleKeys({ sql: database, clock, log, metrics }, { isAllowed: config.broker.allow_sample_pak })
    onClose('sample key watch', () => sampleKeys?.stop())
    const authenticator = createAuthenticator(
      {
        clock,
        metrics,
        lookupCredential: (hash) => credentials.findByHash(database, { hash }),
        lookupInvite: (hash) => agentInvites.findByHash(database, { hash }),
        lookupSession: (hash) => consoleSessions.findByHash(database, { hash }),
        trusted: () => feed.trouble() === null,
        onAuthFailure: (failure) => audit.record(failedDeed(failure)),
        onAccepted: ({ kind, id, session }, renews) => {
          if (kind !== 'invite') usage.used(kind, id)
          if (session !== null && renews) usage.used('session', session)
          if (kind === 'admin') keyFile.used()
        },
      },
      { cacheTtlMs: () => config.broker.auth_cache_ttl_seconds * 1000, cookieName: cookie.name },
    )
    trouble = createReadiness({ sql: database, clock, feedTrouble: () => feed.trouble() })
    const { wake: wakeFeed, readCursor } = feed
    const dropCredential: BrokerDeps['dropCredential'] = (kind, id) => authenticator.dropCredential(kind, id)
    const readOverview = createOverviewReader({ sql: database, clock })
    const sending = { sql: database, seal, clock, log, metrics }
    const webhooks = openWebhooks(sending, { settings: config.broker, userAgent: `brokkr/${version}` })
    onClose('webhook receivers', () => webhooks.outbound.close())
    const taskDeps = { sql: database, clock, log, metrics, hooks, sender: webhooks.sender, wakeFeed }
    const isAway = (error: unknown) => fromDatabase(error)?.code === 'database_unavailable'
    const tasks = startTasks({ ...taskDeps, owner, isAway }, listTasks(taskDeps, taskSettings(config)))
    const manifests = createManifestWork()
    onClose('manifest workers', () => manifests.close())
    const deps: BrokerDeps = {
      manifests,
      sql: database,
      seal,
      texts,
      feed,
      hooks,
      webhooks,
      wakeFeed,
      readCursor,
      dropCredential,
      readOverview,
      config,
      settings,
      tasks: () => tasks.tasks,
      clock,
      cookie,
      log,
    }
    const idempotency = createIdempotency({ database, seal, metrics, wakeFeed }, { seconds: config.broker.idempotency_seconds })
    http.goLive({
      deps,
      idempotency,
      handlers,
      authenticator,
      things: createThings(database),
      maskManifest: (text) => manifests.mask(text),
      onDenied: (denied) => audit.record(deniedDeed(denied)),
    })
    // Registered last, closed first: nothing new is taken, streams get their bye, calls under way end, then the rest goes.
    onClose('http', async () => {
      http.drain()
      const stopped = tasks.stop().then(() => webhooks.sender.stop(deliveryGraceMs))
      await feed.drain()
      await Promise.all([stopped, http.close()])
    })
    return {
      address: `${tls === null ? 'http' : 'https'}://${http.address.includes(':') ? `[${http.address}]` : http.address}:${http.port}`,
    }
  } catch (error) {
    await http.close(0)
    throw error
  }
}

const httpLimits = ({ limits }: BrokerConfig) => ({
  headerMs: limits.header_seconds * 1000,
  bodyMs: limits.body_seconds * 1000,
  handlerMs: limits.handler_seconds * 1000,
  bodyBytes: limits.body_bytes,
  objectBodyBytes: limits.object_body_bytes,
})

/** For deliveries that are on their way when the broker stops. */
const deliveryGraceMs = 20_000

const taskSettings = (config: BrokerConfig): TaskSettings => ({
  everySeconds: (name) => (config.tasks as Record<string, { every_seconds: number | null } | undefined>)[name]?.every_seconds ?? null,
  retentionHours: () => config.feed.retention_hours,
  silentSeconds: () => config.broker.agent_disconnect_after_seconds,
  auditRetentionDays: () => config.broker.audit_log_retention_days,
  auditCleanupSeconds: () => config.broker.audit_cleanup_interval_seconds,
  eventDays: () => config.broker.agent_events_retention_days,
  webhookDeliverySeconds: () => config.broker.webhook_delivery_interval_seconds,
  webhookCleanupSeconds: () => config.broker.webhook_cleanup_interval_seconds,
  webhookRetentionDays: () => config.broker.webhook_cleanup_retention_days,
})

const nobody: Actor = { ...systemActor }

function failedDeed({ clientAddress, userAgent, requestId, path, reason, shortToken }: AuthFailure): Deed {
  return {
    by: { ...nobody, address: clientAddress, userAgent, requestId },
    action: 'auth.failed',
    on: { type: 'system', id: null },
    details: { path, reason, ...(shortToken === null ? {} : { short_token: shortToken }) },
  }
}

function deniedDeed({ principal, clientAddress, userAgent, requestId, endpoint, path, code }: Denied): Deed {
  return {
    by: actorOf({ principal, clientAddress, userAgent, requestId }),
    action: 'auth.denied',
    on: { type: 'system', id: null },
    details: { endpoint, path, code },
  }
}

if (import.meta.main) await runBroker({ env: process.env })
