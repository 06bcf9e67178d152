// GET /tap on the loopback address of the pod: a line of JSON per sampled record. Only who may forward a port of the pod can read it.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { errorText } from '@brokkr/runtime/errors.ts'
import { closeServer, listenOn } from '@brokkr/runtime/http-listen.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Tap } from './tap.ts'

export interface TapServer {
  /** Undefined if the port is taken: the flow runs without its tap. */
  readonly port: number | undefined
  close(): Promise<void>
}

const host = '127.0.0.1'
const readersMax = 4
/** A reader that does not keep up loses lines, never memory of the processor. */
const pendingBytesMax = 1024 * 1024
const limits = { headersTimeout: 5_000, requestTimeout: 10_000, maxHeaderSize: 16 * 1024 }

export async function startTapServer({ tap, log }: { readonly tap: Tap; readonly log: Log }, port: number): Promise<TapServer> {
  const open = new Set<ServerResponse>()
  const server = createServer(limits, (request, response) => {
    request.resume()
    const refusal = findRefusal(request, tap)
    if (refusal !== undefined) {
      response.writeHead(refusal.status, { 'content-type': 'text/plain' }).end(`${refusal.text}\n`)
      return
    }
    response.writeHead(200, { 'content-type': 'application/x-ndjson', 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' })
    response.flushHeaders()
    const stop = tap.read((line) => {
      if (response.writableLength < pendingBytesMax) response.write(`${line}\n`)
    })
    open.add(response)
    response.once('close', () => {
      stop()
      open.delete(response)
    })
  })
  server.maxConnections = 4 * readersMax
  try {
    await listenOn(server, { name: 'tap', host, port })
  } catch (error) {
    log.warn('tap not available', { why: errorText(error) })
    return { port: undefined, close: async () => undefined }
  }
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      for (const response of open) response.end()
      await closeServer(server, 1_000)
    },
  }
}

/** The host is checked, so that a name that a foreign page resolves to this address does not read. */
function findRefusal({ url, method, headers }: IncomingMessage, tap: Tap): { status: number; text: string } | undefined {
  if (!/^(127\.0\.0\.1|localhost)(:\d+)?$/.test(headers.host ?? '')) return { status: 403, text: 'only on the loopback address' }
  if (url?.split('?')[0] !== '/tap') return { status: 404, text: 'GET /tap' }
  if (method !== 'GET') return { status: 405, text: 'GET /tap' }
  return tap.readers >= readersMax ? { status: 503, text: `${readersMax} readers are connected already` } : undefined
}
