// HTTP server for probes and metrics of every program: /healthz, /readyz, /metrics. Plain HTTP, bounded, without authentication.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { toError } from './errors.ts'
import { closeServer, listenOn } from './http-listen.ts'
import type { Log } from './logging/log.ts'
import { redactText } from './logging/redact-text.ts'
import type { Metrics } from './metrics/metrics.ts'

export type AdminServerOptions = {
  host: string
  /** 0: a free one. */
  port: number
  /** null: ready; otherwise the reason. */
  ready: () => Promise<string | null> | string | null
  metrics: Pick<Metrics, 'text' | 'contentType'>
  log: Log
  /** Time limit for readiness and metrics before the response is 503. */
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
  connectionsCheckingInterval: 5_000,
}
const connectionsMax = 256
const closeMs = 1_000

export async function startAdminServer(options: AdminServerOptions): Promise<AdminServer> {
  const server = createServer(limits, (request, response) => void answer(options, request, response))
  server.maxConnections = connectionsMax
  await listenOn(server, { name: 'probes', host: options.host, port: options.port })
  return { port: (server.address() as AddressInfo).port, close: () => closeServer(server, closeMs) }
}

type Answer = AdminPage

/** Never rejects: a probe always gets an answer. */
async function answer(options: AdminServerOptions, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { status, type, text } = await selectAnswer(options, request)
  request.resume() // request bodies are ignored and discarded within requestTimeout
  response.writeHead(status, {
    'content-type': type,
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    ...(status === 405 ? { allow: 'GET, HEAD' } : {}),
  })
  response.end(request.method === 'HEAD' ? undefined : text)
}

async function selectAnswer(options: AdminServerOptions, request: IncomingMessage): Promise<Answer> {
  const further = Object.entries(options.pages ?? {}).map(
    ([path, page]) => [path, () => within(options, path, async () => page())] as const,
  )
  const pages: Record<string, () => Promise<Answer> | Answer> = {
    '/healthz': () => plainText(200, 'OK'),
    '/readyz': () => within(options, 'the readiness check', async () => readiness(await options.ready())),
    '/metrics': () =>
      within(options, 'the metrics', async () => ({ status: 200, type: options.metrics.contentType, text: await options.metrics.text() })),
    ...Object.fromEntries(further),
  }
  const path = request.url?.split('?')[0] ?? ''
  const page = Object.hasOwn(pages, path) ? pages[path] : undefined
  const paths = Object.keys(pages)
  if (!page) return plainText(404, `Not found: there are ${paths.slice(0, -1).join(', ')} and ${paths.at(-1)}`)
  return request.method === 'GET' || request.method === 'HEAD' ? page() : plainText(405, 'Method not allowed: use GET')
}

function readiness(reason: string | null): Answer {
  return reason === null ? plainText(200, 'Ready') : plainText(503, redactText(reason, 500))
}

export const jsonPage = ({ status, body }: { status: number; body: unknown }): AdminPage => ({
  status,
  type: 'application/json; charset=utf-8',
  text: `${JSON.stringify(body)}\n`,
})

async function within(options: AdminServerOptions, what: string, work: () => Promise<Answer>): Promise<Answer> {
  const timeoutMs = options.answerTimeoutMs ?? 5_000
  const limit = Promise.withResolvers<Answer>()
  const timer = setTimeout(() => limit.resolve(plainText(503, `${what} took longer than ${timeoutMs} ms`)), timeoutMs)
  try {
    return await Promise.race([work(), limit.promise])
  } catch (thrown) {
    options.log.warn('probe failed', { probe: what, error: toError(thrown) })
    return plainText(503, `${what} failed; the reason is in the log`)
  } finally {
    clearTimeout(timer)
  }
}

function plainText(status: number, text: string): Answer {
  return { status, type: 'text/plain; charset=utf-8', text }
}
