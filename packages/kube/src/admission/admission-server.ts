// An HTTPS server that the API server asks before it stores an object. Handlers only judge; parsing, bounds and the wire form are here.
// Every failure returns an error status, so that the webhook's failurePolicy decides and no request is allowed by mistake.

import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Certificate } from '@brokkr/runtime/certificates.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { type AdmissionRequest, type AdmissionVerdict, BadReview, readReview, reviewAnswer } from './admission-review.ts'

export type AdmissionHandler = (request: AdmissionRequest, signal: AbortSignal) => AdmissionVerdict | Promise<AdmissionVerdict>

export interface AdmissionOptions {
  host: string
  /** 0 takes a free one. */
  port: number
  certificate: Certificate
  /** By path. */
  handlers: Readonly<Record<string, AdmissionHandler>>
  /** Default 5 s, equal to timeoutSeconds of our webhooks. */
  timeoutMs?: number
  /** Default 8 MiB: an object and its former state, each as large as etcd takes it. */
  bodyBytesMax?: number
}

export interface AdmissionServer {
  readonly port: number
  /** For every connection from now on; open ones keep theirs, the port stays open. */
  setCertificate(certificate: Certificate): void
  close(): Promise<void>
}

export async function startAdmissionServer(deps: { log: Log }, options: AdmissionOptions): Promise<AdmissionServer> {
  const server = createServer({ ...options.certificate, minVersion: 'TLSv1.2' }, (request, response) => {
    answer(deps, options, request, response).catch((error: unknown) => {
      deps.log.error('admission answer failed', { path: request.url, error: String(error) })
      response.destroy()
    })
  })
  server.headersTimeout = 10_000
  server.requestTimeout = 30_000
  await listen(server, options)
  return {
    port: (server.address() as AddressInfo).port,
    setCertificate: (certificate) => server.setSecureContext({ ...certificate, minVersion: 'TLSv1.2' }),
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      server.closeAllConnections()
      await closed
    },
  }
}

function listen(server: Server, options: AdmissionOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port, options.host, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

async function answer(deps: { log: Log }, options: AdmissionOptions, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const path = (request.url ?? '').split('?')[0] ?? ''
  const handler = Object.hasOwn(options.handlers, path) ? options.handlers[path] : undefined
  if (!handler) return refuse(response, 404, 'no such webhook')
  if (request.method !== 'POST') return refuse(response, 405, 'only POST')
  if (!/^application\/json\b/.test(request.headers['content-type'] ?? '')) return refuse(response, 415, 'only application/json')
  const text = await readBody(request, options.bodyBytesMax ?? 8 * 1024 * 1024)
  if (text === undefined) return refuse(response, 413, 'the review is too large')
  try {
    const review = readReview(text)
    const verdict = await judge(handler, review, options.timeoutMs ?? 5_000)
    deps.log.debug('admission judged', { path, kind: review.kind.kind, operation: review.operation, allowed: verdict.allowed })
    send(response, 200, reviewAnswer(review.uid, verdict))
  } catch (error) {
    if (error instanceof BadReview) return refuse(response, 400, error.message)
    deps.log.error('admission handler failed', { path, error: String(error) })
    refuse(response, 500, 'the webhook failed; see its log')
  }
}

async function judge(handler: AdmissionHandler, review: AdmissionRequest, timeoutMs: number): Promise<AdmissionVerdict> {
  const limit = new AbortController()
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => {
    const error = new Error(`no verdict within ${timeoutMs} ms`)
    limit.abort(error)
    reject(error)
  }, timeoutMs)
  try {
    return await Promise.race([Promise.resolve(handler(review, limit.signal)), promise])
  } finally {
    clearTimeout(timer)
  }
}

/** Undefined when it is too large; the rest of it is then not read. */
async function readBody(request: IncomingMessage, bytesMax: number): Promise<string | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > bytesMax) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function refuse(response: ServerResponse, status: number, message: string): void {
  response.setHeader('connection', 'close')
  send(response, status, JSON.stringify({ error: message }))
}

function send(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(body)
}
