// Routes without authentication: probes, metrics and the API description. Every other path outside /api is the console page.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { buildDocsPage } from './docs-page.ts'
import type { Page, PageHandler } from './not-found.ts'
import { openApi } from './openapi.ts'

export interface PlainDeps {
  readonly clock: Clock
  readonly metrics: Metrics
  /** Null if the broker is ready, else the reason. */
  readonly ready: () => Promise<string | null> | string | null
  /** The console's page of the API; if absent, /docs lists the operations without a script. */
  readonly docs?: PageHandler | undefined
}
export interface PlainOptions {
  readonly version: string
  /** False if metrics have their own port. */
  readonly serveMetrics: boolean
}

export function mountPlainRoutes(deps: PlainDeps, app: FastifyInstance, options: PlainOptions): void {
  const document = openApi({ version: options.version })
  const page = buildDocsPage(document)
  const documentText = JSON.stringify(document)
  const sendPage = (_: unknown, reply: FastifyReply) =>
    reply.type('text/html; charset=utf-8').header('content-security-policy', page.contentSecurityPolicy).send(page.html)
  const get = (url: string, handler: (request: unknown, reply: FastifyReply) => unknown) =>
    app.route({ method: ['GET', 'HEAD'], url, handler })

  get('/healthz', (_, reply) => text(reply, 200, 'OK'))
  get('/readyz', async (_, reply) => {
    const reason = await readiness(deps)
    return text(reply, reason === null ? 200 : 503, reason ?? 'Ready')
  })
  if (options.serveMetrics) get('/metrics', async (_, reply) => reply.type(deps.metrics.contentType).send(await deps.metrics.text()))
  const { docs } = deps
  get('/docs', docs === undefined ? sendPage : async (_, reply) => sendConsole(reply, await docs('/docs')))
  get('/swagger-ui/', sendPage)
  get('/swagger-ui', (_, reply) => reply.redirect('/swagger-ui/', 303))
  get('/docs/openapi.json', (_, reply) => reply.type('application/json; charset=utf-8').send(documentText))
}

const sendConsole = (reply: FastifyReply, { status, contentType, headers, body }: Page) =>
  reply
    .code(status ?? 200)
    .type(contentType)
    .headers(headers ?? {})
    .send(body)

const text = (reply: FastifyReply, status: number, body: string) =>
  reply.code(status).type('text/plain; charset=utf-8').header('cache-control', 'no-store').send(body)

const readyTimeoutMs = 2_000

/** Timeout of a probe: a failed probe is better than one that hangs. */
async function readiness({ clock, ready }: PlainDeps): Promise<string | null> {
  const late = Promise.withResolvers<string>()
  const timer = clock.setTimer(readyTimeoutMs, () => late.resolve('database unavailable'))
  try {
    return await Promise.race([ready(), late.promise])
  } catch {
    return 'database unavailable'
  } finally {
    timer.cancel()
  }
}
