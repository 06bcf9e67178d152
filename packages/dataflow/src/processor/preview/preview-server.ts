// HTTP server of the console's preview: samples in, outcomes out. Listens on loopback and opens no source or sink.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { Terminal, toError } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { createWorkerPool, type WorkerPool } from '@brokkr/runtime/workers/worker-pool.ts'
import { z } from 'zod'
import type { PreviewJob, PreviewJobResult } from './preview-worker.ts'

const samplesMax = 20
const bodyBytesMax = 1 << 20
const requestMs = 2_000
const Body = z.object({ flow: z.record(z.string(), z.unknown()), samples: z.array(z.string()).max(samplesMax) })

export interface PreviewServer {
  readonly port: number
  close(): Promise<void>
}

export async function startPreviewServer(
  deps: { readonly clock: Clock; readonly log: Log },
  options: { readonly host: string; readonly port: number },
): Promise<PreviewServer> {
  const pool = createWorkerPool<PreviewJob, PreviewJobResult>({
    file: new URL('./preview-worker.ts', import.meta.url),
    workers: 1,
    waitingMax: 16,
    timeoutMs: requestMs,
    memoryMb: 128,
  })
  const server = createServer(
    { requestTimeout: 10_000, headersTimeout: 5_000 },
    (request, response) => void respond(deps, pool, request, response),
  )
  server.maxConnections = 64
  await listen(server, options)
  const close = async (): Promise<void> => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    await pool.close()
  }
  return { port: (server.address() as AddressInfo).port, close }
}

type Pool = WorkerPool<PreviewJob, PreviewJobResult>
interface PreviewResponse {
  readonly status: number
  readonly text: string
}

async function respond(deps: { clock: Clock; log: Log }, pool: Pool, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { status, text } = await handleRequest(deps, pool, request).catch((thrown: unknown): PreviewResponse => {
    deps.log.warn('preview failed', { error: toError(thrown) })
    return toErrorResponse(500, 'the preview failed; the reason is in the log')
  })
  response.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' })
  response.end(text)
}

async function handleRequest(deps: { clock: Clock }, pool: Pool, request: IncomingMessage): Promise<PreviewResponse> {
  if (request.url === '/healthz') return { status: 200, text: '{"status":"ok"}' }
  if (request.url !== '/preview') return toErrorResponse(404, 'there is POST /preview')
  if (request.method !== 'POST') return toErrorResponse(405, 'use POST')
  const text = await readBody(request)
  if (text === undefined) return toErrorResponse(413, `a request has at most ${bodyBytesMax} bytes`)
  const body = Body.safeParse(parseJson(text))
  if (!body.success) return toErrorResponse(400, z.prettifyError(body.error))
  return runPreview(pool, { ...body.data, nowMs: deps.clock.now() })
}

async function runPreview(pool: Pool, job: PreviewJob): Promise<PreviewResponse> {
  try {
    const { problems, warnings, previews } = await pool.run(job)
    const head = JSON.stringify({ problems, warnings })
    return { status: problems.length === 0 ? 200 : 422, text: `${head.slice(0, -1)},"previews":${previews}}` }
  } catch (error) {
    if (error instanceof Terminal && (error.code === 'worker_timeout' || error.code === 'worker_memory'))
      return toErrorResponse(422, 'the preview took too much time or memory: give fewer or smaller samples')
    throw error
  }
}

const toErrorResponse = (status: number, message: string): PreviewResponse => ({ status, text: JSON.stringify({ message }) })

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > bodyBytesMax) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function listen(server: Server, { host, port }: { readonly host: string; readonly port: number }): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  server.once('error', (cause) => reject(new Error(`the preview cannot listen on ${host}:${port}: choose another port`, { cause })))
  server.listen(port, host, () => resolve())
  return promise
}
