// HTTP proxy between an agent and a real broker that injects wrong responses: an error, a page, a reset, a cut, changed or delayed
// stream. Forwards everything else unchanged.
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export type Fault =
  | { readonly do: 'pass' }
  | { readonly do: 'answer'; readonly status: number; readonly headers?: Record<string, string>; readonly body?: string }
  | { readonly do: 'reset' }
  /** Accepts the request and never responds. */
  | { readonly do: 'hang' }
  /** Buffers the response until it is complete, as some proxies do: an endless one never arrives. */
  | { readonly do: 'buffer' }
  /** Each line of the answer by this function: another line, none (null), or the end of the connection. */
  | { readonly do: 'rewrite'; readonly line: (line: string) => string | null | typeof cut }
  /** The whole answer, read to its end. */
  | { readonly do: 'change'; readonly answer: (whole: FixedResponse) => FixedResponse }
  /** Hears the whole answer and never passes it on. */
  | { readonly do: 'withhold'; readonly heard: (whole: FixedResponse) => void }

/** Ends the connection in the middle of an answer. */
export const cut = Symbol('cut')

export interface FixedResponse {
  readonly status: number
  readonly headers: Record<string, string>
  readonly body: string
}
export interface ProxiedRequest {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly userAgent: string
  readonly status: number | null
}
export type BrokerProxy = {
  readonly url: string
  /** Requests in order of arrival; `status` is set with the response. */
  readonly requests: ProxiedRequest[]
  /** From now on; requests under way keep their fate unless `cutOpen`. */
  readonly break: (fault: Fault | ((request: { method: string; path: string; query: URLSearchParams }) => Fault)) => void
  readonly heal: () => void
  /** Ends every connection that is open now. */
  readonly cutOpen: () => void
  /** Sends to another broker from now on. */
  readonly target: (url: string) => void
  readonly close: () => Promise<void>
}

export async function startBrokerProxy(targetUrl: string): Promise<BrokerProxy> {
  let target = targetUrl
  let faultOf: (request: { method: string; path: string; query: URLSearchParams }) => Fault = () => ({ do: 'pass' })
  const requests: ProxiedRequest[] = []
  const server = createServer((incoming, response) => {
    const url = new URL(incoming.url ?? '/', target)
    const noted = {
      method: incoming.method ?? '',
      path: url.pathname,
      query: url.searchParams,
      userAgent: incoming.headers['user-agent'] ?? '',
      status: null as number | null,
    }
    requests.push(noted)
    response.on('error', () => undefined)
    response.on('close', () => (noted.status = response.headersSent ? response.statusCode : null))
    forward(incoming, response, url, faultOf(noted))
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    break: (fault) => {
      faultOf = typeof fault === 'function' ? fault : () => fault
    },
    heal: () => {
      faultOf = () => ({ do: 'pass' })
    },
    cutOpen: () => server.closeAllConnections(),
    target: (url) => {
      target = url
    },
    close: () => {
      server.closeAllConnections()
      return new Promise((resolve) => void server.close(() => resolve()))
    },
  }
}

function forward(incoming: IncomingMessage, response: ServerResponse, url: URL, fault: Fault): void {
  if (fault.do === 'reset') return void incoming.socket.resetAndDestroy()
  if (fault.do === 'hang') return void incoming.resume()
  if (fault.do === 'answer') {
    incoming.resume()
    response.writeHead(fault.status, { 'content-type': 'application/json', ...fault.headers })
    return void response.end(fault.body ?? '')
  }
  const { host: _host, 'accept-encoding': _encoding, ...headers } = incoming.headers
  const outgoing = request(url, { method: incoming.method ?? 'GET', headers }, (answer) => void answerWith(answer, response, fault))
  outgoing.on('error', () => response.destroy())
  response.on('close', () => outgoing.destroy())
  incoming.pipe(outgoing)
}

async function answerWith(
  answer: IncomingMessage,
  response: ServerResponse,
  fault: Extract<Fault, { do: 'pass' | 'buffer' | 'rewrite' | 'change' | 'withhold' }>,
): Promise<void> {
  const status = answer.statusCode ?? 502
  try {
    if (fault.do === 'pass') {
      response.writeHead(status, answer.headers)
      response.flushHeaders()
      for await (const chunk of answer) response.write(chunk)
    } else if (fault.do === 'rewrite') {
      response.writeHead(status, answer.headers)
      if (!(await rewriteBody(answer, response, fault.line))) return void response.destroy()
    } else {
      const chunks: Buffer[] = []
      for await (const chunk of answer) chunks.push(chunk as Buffer)
      const whole = { status, headers: plain(answer.headers), body: Buffer.concat(chunks).toString('utf8') }
      if (fault.do === 'withhold') return fault.heard(whole)
      const changed = fault.do === 'change' ? fault.answer(whole) : whole
      response.writeHead(changed.status, { ...changed.headers, 'content-length': String(Buffer.byteLength(changed.body)) })
      response.write(changed.body)
    }
    response.end()
  } catch {
    response.destroy()
  }
}

/** False: the line function asked for the end of the connection. */
async function rewriteBody(
  answer: IncomingMessage,
  response: ServerResponse,
  change: (line: string) => string | null | typeof cut,
): Promise<boolean> {
  let rest = ''
  for await (const chunk of answer) {
    const lines = (rest + (chunk as Buffer).toString('utf8')).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const changed = change(line)
      if (changed === cut) return false
      if (changed !== null) response.write(`${changed}\n`)
    }
  }
  return true
}

const plain = (headers: IncomingMessage['headers']): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      ['transfer-encoding', 'content-length', 'connection'].includes(name) || value === undefined ? [] : [[name, String(value)]],
    ),
  )
