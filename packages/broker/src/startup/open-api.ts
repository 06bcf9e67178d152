// Last step of the start: creates what only requests need and lets the listener serve the API.
import { createReadiness } from '../admin/readiness.ts'
import type { AuditEntry } from '../audit/record.ts'
import { createResourceLookups } from '../auth/resource-lookups.ts'
import { createManifestWork } from '../deployments/manifest-work.ts'
import type { BrokerDeps } from '../deps.ts'
import { createForwarder } from '../forward/forwarder.ts'
import { toActor } from '../http/request/actor.ts'
import { createIdempotency } from '../http/request/idempotency.ts'
import { handlers } from '../http/server/handlers.ts'
import type { DeniedCall } from '../http/server/serve.ts'
import { openLive } from '../live/open-live.ts'
import { createOverviewReader } from '../stacks/actions/read-overview.ts'
import { createTemplateWork } from '../templates/template-work.ts'
import { version } from '../version.ts'
import { createWorkOrderMetrics } from '../work-orders/actions/claim-work-order.ts'
import type { StartContext } from './context.ts'
import type { Listener } from './open-listener.ts'
import type { Security } from './open-security.ts'
import type { Store } from './open-store.ts'
import type { BackgroundWork } from './open-tasks.ts'

/** A dependency of handlers that an earlier step opened is passed on by its name in BrokerDeps. */
type ApiDeps = StartContext &
  Store &
  Security &
  BackgroundWork &
  Omit<BrokerDeps, 'manifests' | 'templates' | 'readOverview' | 'forwarder' | 'live' | 'workOrders'>

/** Time between the limit of a call with an idempotency key and the end of its lease, for storing the response. */
const leaseMarginSeconds = 30

export function openApi(deps: ApiDeps, listener: Listener): void {
  const { config, clock, sql, metrics, audit, feed, authenticator, cookie, stopTasks, onClose } = deps
  const lookups = createResourceLookups(sql)
  const live = openLive(
    { ...deps, lookups, recordAudit: (entry) => audit.record(entry) },
    {
      settings: config.sockets,
      schema: config.database.schema,
      scheme: cookie.scheme,
      trustedProxies: config.server.trusted_proxies,
      graceMs: config.server.shutdown_seconds * 1000,
    },
  )
  onClose('live sockets', () => live.stop())
  const manifests = createManifestWork()
  onClose('manifest workers', () => manifests.close())
  const forwarder = createForwarder({ clock }, { settings: config.broker, userAgent: `brokkr/${version}` })
  onClose('forwarder', () => forwarder.close())
  const templates = createTemplateWork()
  onClose('template workers', () => templates.close())
  const idempotency = createIdempotency(
    { ...deps, database: sql },
    { seconds: config.broker.idempotency_seconds, leaseSeconds: config.limits.handler_seconds + leaseMarginSeconds },
  )
  const ready = createReadiness({ sql, clock, feedTrouble: () => feed.getTrouble() })
  const readOverview = createOverviewReader({ sql, clock })
  const workOrders = createWorkOrderMetrics(metrics)
  const handlerDeps: BrokerDeps = { ...deps, live, manifests, templates, forwarder, readOverview, workOrders }
  listener.goLive(
    { ready, poolWaitMs: () => sql.pool.oldestWaitMs },
    {
      deps: handlerDeps,
      idempotency,
      handlers,
      authenticator,
      lookups,
      maskManifest: (text) => manifests.mask(text),
      readLargeBody: manifests.readBody,
      onDenied: (denied) => audit.record(toDeniedEntry(denied)),
    },
  )
  live.start()
  listener.onUpgrade(live.upgrade)
  // Registered last and closed first: the broker accepts no new calls, streams get `bye`, calls in progress end, then the rest closes.
  onClose('http', async () => {
    listener.drain()
    const tasksStopped = stopTasks()
    await Promise.all([feed.drain(), live.drain()])
    await Promise.all([tasksStopped, listener.close()])
  })
}

function toDeniedEntry({ principal, clientAddress, userAgent, requestId, endpoint, path, code }: DeniedCall): AuditEntry {
  return {
    actor: toActor({ principal, clientAddress, userAgent, requestId }),
    action: 'auth.denied',
    resource: { type: 'system', id: null },
    details: { endpoint, path, code },
  }
}
