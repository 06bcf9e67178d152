// HTTP to the broker: connections kept alive, every answer bounded in size and time, redirects refused. The key goes to the
// broker's own origin and nowhere else, because this file knows no other.
import { type Client, createClient, errorFromAnswer, type Transport } from '@brokkr/contract/client.ts'
import { Retryable, Terminal } from '@brokkr/runtime/errors.ts'
import { HttpPool } from '@brokkr/runtime/http-pool.ts'
import type { Agent, Dispatcher } from 'undici'
import { type BrokerTls, brokerTls } from './broker-tls.ts'
import type { Answered } from './vouch.ts'

export interface BrokerHttpOptions extends BrokerTls {
  /** Scheme, host, port and perhaps a path. */
  readonly url: string
  readonly userAgent: string
  readonly timeoutMs: number
  /** Read at each call, so that a renewed key is used at once. */
  readonly pak: () => string
  /** Told of every answer before anybody reads it. */
  readonly onAnswer?: (answered: Answered) => void
}
export interface OpenAnswer {
  readonly status: number
  readonly header: (name: string) => string | null
  readonly body: AsyncIterable<Buffer>
  /** Must be called when the body is read or given up; takes the connection with it. */
  readonly close: () => void
}
export interface BrokerHttp {
  readonly client: Client
  /** A body without an end; the caller limits the time. Answers of 300 and more are thrown as ApiError. */
  open(path: string, options: { accept: string; signal: AbortSignal }): Promise<OpenAnswer>
  /** A call of an operation that the endpoint table does not have yet. */
  post(path: string, options: { authorization: string; body: unknown; signal: AbortSignal }): Promise<unknown>
  /** A body as text, at most `bytesMax` of it. */
  text(path: string, options: { accept: string; bytesMax: number; signal: AbortSignal }): Promise<string>
  /** Reads the certificate files again; connections under new ones replace those under the old. */
  refreshTls(): Promise<void>
  close(): Promise<void>
}

const MIB = 1024 * 1024
/** The whole target state of an agent that polls is the largest answer there is. */
const answerBytesMax = 256 * MIB
const errorBytesMax = 64 * 1024

export async function openBrokerHttp(options: BrokerHttpOptions): Promise<BrokerHttp> {
  const tls = await brokerTls(options)
  const wire: Wire = { agent: newAgent(tls, options), base: new URL(options.url), options }
  let used = JSON.stringify(tls)
  return {
    client: createClient({ baseUrl: options.url, pak: options.pak, userAgent: options.userAgent, transport: transportOf(wire) }),
    open: (path, call) => open(wire, path, call),
    post: (path, call) => post(wire, path, call),
    text: (path, call) => text(wire, path, call),
    refreshTls: async () => {
      const now = await brokerTls(options)
      if (JSON.stringify(now) === used) return
      used = JSON.stringify(now)
      // What is under way ends by itself; a stream does so within its life.
      const old = wire.agent
      wire.agent = newAgent(now, options)
      void old.close().catch(() => undefined)
    },
    close: () => wire.agent.destroy(new Terminal('the connection to the broker was closed')),
  }
}

const newAgent = (tls: Awaited<ReturnType<typeof brokerTls>>, { timeoutMs }: BrokerHttpOptions): Agent =>
  new HttpPool({
    connections: 16,
    pipelining: 1,
    keepAliveTimeout: 60_000,
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: 64 * 1024,
    connect: { ...tls, timeout: Math.min(10_000, timeoutMs) },
  })

interface Wire {
  agent: Agent
  readonly base: URL
  readonly options: BrokerHttpOptions
}

function transportOf(wire: Wire): Transport {
  return async ({ method, url, headers, body, signal }) => {
    const deadline = AbortSignal.timeout(wire.options.timeoutMs)
    const both = signal === undefined ? deadline : AbortSignal.any([signal, deadline])
    const answer = await dispatch(wire, new URL(url), { method, headers, body: body ?? null, signal: both })
    const read = await readText(answer.body, answerBytesMax)
    return { status: answer.statusCode, header: (name) => headerOf(answer, name), text: () => Promise.resolve(read) }
  }
}

async function open(wire: Wire, path: string, call: { accept: string; signal: AbortSignal }): Promise<OpenAnswer> {
  const { signal } = call
  const answer = await dispatch(wire, urlOf(wire, path), { method: 'GET', headers: headersOf(wire, call.accept), signal })
  if (answer.statusCode >= 300)
    throw errorFromAnswer(answer.statusCode, await readText(answer.body, errorBytesMax), headerOf(answer, 'retry-after'))
  return { status: answer.statusCode, header: (name) => headerOf(answer, name), body: answer.body, close: () => closeBody(answer.body) }
}

async function post(wire: Wire, path: string, call: { authorization: string; body: unknown; signal: AbortSignal }): Promise<unknown> {
  const signal = AbortSignal.any([call.signal, AbortSignal.timeout(wire.options.timeoutMs)])
  const headers = { ...headersOf(wire, 'application/json'), authorization: call.authorization, 'content-type': 'application/json' }
  const answer = await dispatch(wire, urlOf(wire, path), { method: 'POST', headers, body: JSON.stringify(call.body), signal })
  const read = await readText(answer.body, errorBytesMax)
  if (answer.statusCode >= 300) throw errorFromAnswer(answer.statusCode, read, headerOf(answer, 'retry-after'))
  return read === '' ? null : JSON.parse(read)
}

async function text(wire: Wire, path: string, call: { accept: string; bytesMax: number; signal: AbortSignal }): Promise<string> {
  const signal = AbortSignal.any([call.signal, AbortSignal.timeout(wire.options.timeoutMs)])
  const answer = await dispatch(wire, urlOf(wire, path), { method: 'GET', headers: headersOf(wire, call.accept), signal })
  const isGood = answer.statusCode < 300
  const read = await readText(answer.body, isGood ? call.bytesMax : errorBytesMax)
  if (!isGood) throw errorFromAnswer(answer.statusCode, read, headerOf(answer, 'retry-after'))
  return read
}

const headersOf = ({ options }: Wire, accept: string): Record<string, string> => ({
  accept,
  authorization: `Bearer ${options.pak()}`,
  'user-agent': options.userAgent,
})

const urlOf = ({ options }: Wire, path: string): URL => new URL(options.url.replace(/\/+$/, '') + path)

type Request = Pick<Dispatcher.RequestOptions, 'method' | 'headers' | 'body' | 'signal'>

async function dispatch(wire: Wire, url: URL, request: Request): Promise<Dispatcher.ResponseData> {
  if (url.origin !== wire.base.origin) throw new Terminal(`the key is sent to ${wire.base.origin} alone, not to ${url.origin}`)
  const answer = await wire.agent.request({ origin: url.origin, path: url.pathname + url.search, ...request })
  const { statusCode } = answer
  wire.options.onAnswer?.({
    method: String(request.method),
    path: url.pathname,
    status: statusCode,
    contentType: headerOf(answer, 'content-type'),
  })
  if (statusCode < 300 || statusCode >= 400 || statusCode === 304) return answer
  closeBody(answer.body)
  throw new Retryable(
    `the broker at ${wire.base.origin} answered ${statusCode}: redirects are not followed, because the key would go along. Name its final address in agent.broker_url`,
  )
}

function headerOf({ headers }: Dispatcher.ResponseData, name: string): string | null {
  const value = headers[name]
  return (Array.isArray(value) ? value[0] : value) ?? null
}

async function readText(body: Dispatcher.ResponseData['body'], bytesMax: number): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length
    // Leaving the loop destroys the body and with it the connection.
    if (bytes > bytesMax) throw new Terminal(`the broker's answer is longer than ${bytesMax} bytes, so it is not read`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function closeBody(body: Dispatcher.ResponseData['body']): void {
  body.on('error', () => undefined)
  body.destroy()
}
