// What answers without a key: probes, metrics and the description of the API. Everything else outside /api is the page.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Metrics } from '@brokkr/runtime/metrics.ts'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { docsPage } from './docs-page.ts'
import { openApi } from './openapi.ts'

export interface PlainDeps {
  readonly clock: Clock
  readonly metrics: Metrics
  /** Null when the broker may be given work, else the reason in a word or two. */
  readonly ready: () => Promise<string | null> | string | null
}
export interface PlainOptions {
  readonly version: string
  /** False where metrics have a port of their own. */
  readonly serveMetrics: boolean
}

export function mountPlainRoutes(deps: PlainDeps, app: FastifyInstance, options: PlainOptions): void {
  const document = openApi({ version: options.version })
  const page = docsPage(document)
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
  get('/docs', sendPage)
  get('/swagger-ui/', sendPage)
  get('/swagger-ui', (_, reply) => reply.redirect('/swagger-ui/', 303))
  get('/docs/openapi.json', (_, reply) => reply.type('application/json; charset=utf-8').send(documentText))
}

const text = (reply: FastifyReply, status: number, body: string) =>
  reply.code(status).type('text/plain; charset=utf-8').header('cache-control', 'no-store').send(body)

const readyTimeoutMs = 2_000

/** A probe that hangs is worse than one that says no. */
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
