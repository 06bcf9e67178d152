// A real HTTP server that speaks a script: it stands for a broker that is broken, hostile or half gone. Never for one that works:
// that is the real one, in the journeys.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Frame } from '@brokkr/contract/feed/stream.ts'
import { afterEach } from 'vitest'
import type { BrokerHttp } from '../connection/broker-http.ts'
import { openBrokerHttp } from '../connection/broker-http.ts'

export type Answering = (request: IncomingMessage, response: ServerResponse, url: URL, body?: string) => void
export interface ScriptedBroker {
  readonly url: string
  /** Received requests in order: method, path and query. */
  readonly requests: { readonly method: string; readonly url: URL; readonly headers: IncomingMessage['headers']; readonly body: string }[]
  /** From now on. */
  answer(answering: Answering): void
  connect(change?: { timeoutMs?: number; url?: string; pak?: () => string }): Promise<BrokerHttp>
}

const closings: (() => Promise<void> | void)[] = []
/** Closed after the test that asked for it. */
export const closeAfter = (close: () => Promise<void> | void): void => void closings.push(close)
afterEach(async () => {
  for (const close of closings.splice(0).toReversed()) await close()
})

export async function scriptedBroker(first: Answering): Promise<ScriptedBroker> {
  let answering = first
  const requests: ScriptedBroker['requests'] = []
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://broker')
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString()
      requests.push({ method: request.method ?? '', url, headers: request.headers, body })
      answering(request, response, url, body)
    })
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  closeAfter(() => {
    server.closeAllConnections()
    return new Promise((resolve) => void server.close(() => resolve()))
  })
  return {
    url,
    requests,
    answer: (next) => {
      answering = next
    },
    connect: async (change = {}) => {
      const options = {
        url,
        userAgent: 'brokkr-agent/test',
        timeoutMs: 2_000,
        pak: () => 'brokkr_BRtest_key',
        caFile: null,
        serverName: null,
      }
      const broker = await openBrokerHttp({ ...options, ...change })
      closeAfter(() => broker.close())
      return broker
    },
  }
}

export const line = (frame: Frame | Record<string, unknown>): string => `${JSON.stringify(frame)}\n`

/** Sends the head of a stream and these frames, and leaves it open. */
export function streaming(response: ServerResponse, ...frames: readonly (Frame | Record<string, unknown>)[]): void {
  response.writeHead(200, { 'content-type': 'application/x-ndjson' })
  response.write(frames.map(line).join(''))
}

export function json(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers })
  response.end(JSON.stringify(body))
}
