// The small HTTP server for probes and scrapes that every program has: /healthz says the process lives, /readyz whether it
// should get work, /metrics counts. Plain, bounded, without any credential.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { toError } from './errors.ts'
import type { Log } from './log.ts'
import type { Metrics } from './metrics.ts'
import { cleanText } from './redact-text.ts'

export type AdminServerOptions = {
  host: string
  /** 0: a free one. */
  port: number
  /** null: ready; a text: why not. */
  ready: () => Promise<string | null> | string | null
  metrics: Pick<Metrics, 'text' | 'contentType'>
  log: Log
  /** How long readiness or a scrape may take before the answer is 503. */
  answerTimeoutMs?: number
  /** Further pages of a program, by path. */
  pages?: Readonly<Record<string, () => Promise<AdminPage> | AdminPage>>
}
export type AdminPage = { status: number; type: string; text: string }
export type AdminServer = { readonly port: number; close(): Promise<void> }

const limits = {
  headersTimeout: 5_000,
  requestTimeout: 10_000,
  keepAliveTimeout: 5_000,
  maxHeaderSize: 16 * 1024,
  // Each look wakes the process, which mostly has nothing else to do.
  connectionsCheckingInterval: 5_000,
}
const connectionsMax = 256

export async function startAdminServer(options: AdminServerOptions): Promise<AdminServer> {
  const server = createServer(limits, (request, response) => void answer(options, request, response))
  server.maxConnections = connectionsMax
  await listening(server, options)
  return { port: (server.address() as AddressInfo).port, close: () => closed(server) }
}

type Answer = AdminPage

/** Never rejects: a probe always gets an answer. */
async function answer(options: AdminServerOptions, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { status, type, text } = await answerTo(options, request)
  request.resume() // a body is nobody's business here; it is read away within requestTimeout
  response.writeHead(status, {
    'content-type': type,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...(status === 405 ? { allow: 'GET, HEAD' } : {}),
  })
  response.end(request.method === 'HEAD' ? undefined : text)
}

async function answerTo(options: AdminServerOptions, request: IncomingMessage): Promise<Answer> {
  const further = Object.entries(options.pages ?? {}).map(
    ([path, page]) => [path, () => within(options, path, async () => page())] as const,
  )
  const pages: Record<string, () => Promise<Answer> | Answer> = {
    '/healthz': () => plain(200, 'OK'),
    '/readyz': () => within(options, 'the readiness check', async () => readiness(await options.ready())),
    '/metrics': () =>
      within(options, 'the metrics', async () => ({ status: 200, type: options.metrics.contentType, text: await options.metrics.text() })),
    ...Object.fromEntries(further),
  }
  const path = request.url?.split('?')[0] ?? ''
  const page = Object.hasOwn(pages, path) ? pages[path] : undefined
  const paths = Object.keys(pages)
  if (!page) return plain(404, `Not found: there are ${paths.slice(0, -1).join(', ')} and ${paths.at(-1)}`)
  return request.method === 'GET' || request.method === 'HEAD' ? page() : plain(405, 'Method not allowed: use GET')
}

function readiness(reason: string | null): Answer {
  return reason === null ? plain(200, 'Ready') : plain(503, cleanText(reason, 500))
}

export const jsonPage = ({ status, body }: { status: number; body: unknown }): AdminPage => ({
  status,
  type: 'application/json; charset=utf-8',
  text: `${JSON.stringify(body)}\n`,
})

async function within(options: AdminServerOptions, what: string, work: () => Promise<Answer>): Promise<Answer> {
  const timeoutMs = options.answerTimeoutMs ?? 5_000
  const limit = Promise.withResolvers<Answer>()
  const timer = setTimeout(() => limit.resolve(plain(503, `${what} took longer than ${timeoutMs} ms`)), timeoutMs)
  try {
    return await Promise.race([work(), limit.promise])
  } catch (thrown) {
    options.log.warn('probe failed', { probe: what, error: toError(thrown) })
    return plain(503, `${what} failed; the reason is in the log`)
  } finally {
    clearTimeout(timer)
  }
}

function plain(status: number, text: string): Answer {
  return { status, type: 'text/plain; charset=utf-8', text }
}

function listening(server: Server, { host, port }: AdminServerOptions): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const fail = (cause: Error) =>
    reject(new Error(`probes cannot listen on ${host}:${port}: choose another port or end the program that has it`, { cause }))
  server.once('error', fail)
  server.listen(port, host, () => {
    server.off('error', fail)
    resolve()
  })
  return promise
}

/** Requests under way get a moment to finish; kept-alive connections do not. */
function closed(server: Server): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(() => server.closeAllConnections(), 1_000)
  server.close(() => {
    clearTimeout(timer)
    resolve()
  })
  server.closeIdleConnections()
  return promise
}
