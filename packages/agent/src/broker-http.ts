// HTTP to the broker: connections kept alive, every answer bounded in size and time, redirects refused. The key goes to the
// broker's own origin and nowhere else, because this file knows no other.
import { readFile } from 'node:fs/promises'
import { type Client, createClient, errorFromAnswer, type Transport } from '@brokkr/contract/client.ts'
import { Retryable, Terminal } from '@brokkr/runtime/errors.ts'
import { Agent, type Dispatcher } from 'undici'

export interface BrokerHttpOptions {
  /** Scheme, host, port and perhaps a path. */
  readonly url: string
  readonly userAgent: string
  readonly timeoutMs: number
  /** Read at each call, so that a renewed key is used at once. */
  readonly pak: () => string
  readonly caFile: string | null
  readonly serverName: string | null
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
  /** A body without an end. The time limit covers the headers alone. Answers of 300 and more are thrown as ApiError. */
  open(path: string, options: { accept: string; signal: AbortSignal }): Promise<OpenAnswer>
  /** A body as text, at most `bytesMax` of it. */
  text(path: string, options: { accept: string; bytesMax: number; signal: AbortSignal }): Promise<string>
  close(): Promise<void>
}

const MIB = 1024 * 1024
/** The whole target state of an agent that polls is the largest answer there is. */
const answerBytesMax = 256 * MIB
const errorBytesMax = 64 * 1024

export async function openBrokerHttp(options: BrokerHttpOptions): Promise<BrokerHttp> {
  const ca = options.caFile === null ? {} : { ca: await readCa(options.caFile) }
  const servername = options.serverName === null ? {} : { servername: options.serverName }
  const agent = new Agent({
    connections: 16,
    pipelining: 1,
    keepAliveTimeout: 60_000,
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: 64 * 1024,
    connect: { ...ca, ...servername, timeout: Math.min(10_000, options.timeoutMs) },
  })
  const wire = { agent, base: new URL(options.url), options }
  return {
    client: createClient({ baseUrl: options.url, pak: options.pak, userAgent: options.userAgent, transport: transportOf(wire) }),
    open: (path, call) => open(wire, path, call),
    text: (path, call) => text(wire, path, call),
    close: () => agent.destroy(new Terminal('the connection to the broker was closed')),
  }
}

interface Wire {
  readonly agent: Agent
  readonly base: URL
  readonly options: BrokerHttpOptions
}

async function readCa(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    throw new Terminal(`agent.ca_file ${path} cannot be read: name a file with the broker's certificate authority in PEM form`, { cause })
  }
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
  const late = new AbortController()
  const timer = setTimeout(
    () => late.abort(new Retryable(`GET ${path}: no answer within ${wire.options.timeoutMs} ms`)),
    wire.options.timeoutMs,
  )
  const signal = AbortSignal.any([call.signal, late.signal])
  try {
    const answer = await dispatch(wire, urlOf(wire, path), { method: 'GET', headers: headersOf(wire, call.accept), signal })
    if (answer.statusCode >= 300)
      throw errorFromAnswer(answer.statusCode, await readText(answer.body, errorBytesMax), headerOf(answer, 'retry-after'))
    return { status: answer.statusCode, header: (name) => headerOf(answer, name), body: answer.body, close: () => closeBody(answer.body) }
  } finally {
    clearTimeout(timer)
  }
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
