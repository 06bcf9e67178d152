// The broker as a program: configuration → listener (probes only) → database → migrations → first rows → feed → routes.
// Composition only; each opening registers its closing beside it.
import { hostname } from 'node:os'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { loadConfig } from '@brokkr/runtime/config.ts'
import { ConfigError } from '@brokkr/runtime/config-error.ts'
import { createLifecycle } from '@brokkr/runtime/lifecycle.ts'
import { createLog, type Log } from '@brokkr/runtime/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics.ts'
import { checkStart } from '@brokkr/runtime/start-checks.ts'
import { createOverviewReader } from './actions/read-overview.ts'
import type { Deed } from './audit.ts'
import { createAuditWriter } from './audit-writer.ts'
import { bootstrap } from './bootstrap.ts'
import { type BrokerConfig, brokerTable, checkBrokerConfig, listenHost } from './config.ts'
import type { BrokerDeps } from './deps.ts'
import { type Actor, systemActor } from './domain/actor.ts'
import { startFeed } from './feed/feed.ts'
import { type AuthFailure, createAuthenticator } from './http/auth.ts'
import type { CredentialKind } from './http/credential-cache.ts'
import { createIdempotency } from './http/idempotency.ts'
import { createThings } from './http/lookups.ts'
import { handlers } from './http/routes/index.ts'
import type { Denied } from './http/serve.ts'
import { startHttp } from './http/server.ts'
import { sessionCookie } from './http/session-cookie.ts'
import { statusPage } from './http/status-page.ts'
import { guardKeyFile } from './key-file.ts'
import { openStore } from './open-store.ts'
import { watchSampleKeys } from './sample-key-watch.ts'
import * as adminRole from './store/admin-role.ts'
import * as consoleSessions from './store/console-sessions.ts'
import * as credentials from './store/credentials.ts'
import { createUsageWriter } from './usage-writer.ts'
import { version } from './version.ts'

/** `brokkr broker`: reads the configuration, serves until a signal ends it. */
export async function runBroker(options: { env: NodeJS.ProcessEnv; flags?: Record<string, unknown> }): Promise<void> {
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
    const broker = await startBroker(config.value, { log, onClose: lifecycle.onClose.bind(lifecycle) })
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
}

export async function startBroker(config: BrokerConfig, { log, onClose }: StartDeps): Promise<{ address: string }> {
  const clock = systemClock
  const metrics = createMetrics({ processMetrics: true })
  const cookie = sessionCookie({ isTls: config.server.tls_terminated_elsewhere })
  let trouble: () => string | null = () => 'starting'
  // The listener comes first, so that probes see a process that is alive while it waits for its database.
  const http = await startHttp(
    { clock, log, metrics, ready: () => trouble(), page: statusPage },
    {
      host: listenHost(config),
      port: config.server.port,
      version,
      trustedProxies: config.server.trusted_proxies,
      scheme: cookie.scheme,
      limits: httpLimits(config),
    },
  )
  try {
    const { database, seal } = await openStore({ clock, log }, config, async (sql) => {
      const { adminPakFile } = await bootstrap({ sql }, config.broker)
      if (adminPakFile !== null) log.info('first admin key written', { file: adminPakFile })
    })
    onClose('database', () => database.close())
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
    const feed = startFeed({
      database,
      seal,
      clock,
      log,
      schema: config.database.schema,
      settings: config.feed,
      brokerName: `${hostname()}-${process.pid}`,
      onCredential: (kind, id) => {
        authenticator.dropCredential(kind as CredentialKind, id)
        if (kind === 'admin') sampleKeys?.wake()
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
        lookupSession: (hash) => consoleSessions.findByHash(database, { hash }),
        trusted: () => feed.trouble() === null,
        onAuthFailure: (failure) => audit.record(failedDeed(failure)),
        onAccepted: ({ kind, id, session }, renews) => {
          usage.used(kind, id)
          if (session !== null && renews) usage.used('session', session)
          if (kind === 'admin') keyFile.used()
        },
      },
      { cacheTtlMs: () => config.broker.auth_cache_ttl_seconds * 1000, cookieName: cookie.name },
    )
    trouble = () => feed.trouble()
    const { wake: wakeFeed, readCursor } = feed
    const dropCredential: BrokerDeps['dropCredential'] = (kind, id) => authenticator.dropCredential(kind, id)
    const readOverview = createOverviewReader({ sql: database, clock })
    const deps: BrokerDeps = { sql: database, seal, feed, wakeFeed, readCursor, dropCredential, readOverview, config, clock, cookie, log }
    const idempotency = createIdempotency({ database, seal, metrics, wakeFeed }, { seconds: config.broker.idempotency_seconds })
    http.goLive({
      deps,
      idempotency,
      handlers,
      authenticator,
      things: createThings(database),
      onDenied: (denied) => audit.record(deniedDeed(denied)),
    })
    // Registered last, closed first: nothing new is taken, streams get their bye, calls under way end, then the rest goes.
    onClose('http', async () => {
      http.drain()
      await feed.drain()
      await http.close()
    })
    return { address: `http://${http.address.includes(':') ? `[${http.address}]` : http.address}:${http.port}` }
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
    by: { kind: principal.kind, id: principal.id, address: clientAddress, userAgent, requestId },
    action: 'auth.denied',
    on: { type: 'system', id: null },
    details: { endpoint, path, code },
  }
}

if (import.meta.main) await runBroker({ env: process.env })
