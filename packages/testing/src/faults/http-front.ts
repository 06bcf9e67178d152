// HTTP front of a real server: every request passes to it unless the test decides otherwise for that request, such as an answer of an
// overloaded proxy, a check of its token, or a connection that is lost before the answer arrives.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse, request as sendRequest } from 'node:http'
import type { AddressInfo } from 'node:net'

export type FrontRequest = {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}
/** pass: to the server, `without` some headers if the front itself checks them · lose: to the server, and its answer is lost · passThen: to
 *  the server, and another answer than its own · an answer instead of the server's. */
export type FrontDecision =
  | 'pass'
  | 'lose'
  | { without: readonly string[] }
  | { passThen: { status: number; body?: string } }
  | { status: number; headers?: Record<string, string>; body?: string }
export type HttpFront = {
  readonly url: string
  /** Decides about every later request. */
  decide(by: (request: FrontRequest) => FrontDecision): void
  close(): Promise<void>
}

export async function startHttpFront(target: string): Promise<HttpFront> {
  let decide: (request: FrontRequest) => FrontDecision = () => 'pass'
  const server = createServer((incoming, response) => {
    handle(incoming, response, target, (request) => decide(request)).catch(() => response.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    decide: (by) => void (decide = by),
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

async function handle(
  incoming: IncomingMessage,
  response: ServerResponse,
  target: string,
  decide: (request: FrontRequest) => FrontDecision,
): Promise<void> {
  const body = await readAll(incoming)
  const { method = 'GET', url: path = '/', headers } = incoming
  const decision = decide({ method, path, headers, body: body.toString() })
  if (typeof decision === 'object' && 'status' in decision) {
    response.writeHead(decision.status, decision.headers).end(decision.body)
    return
  }
  const removed = typeof decision === 'object' && 'without' in decision ? decision.without : []
  const passed = Object.fromEntries(Object.entries(headers).filter(([name]) => !removed.includes(name)))
  const answer = await forward(`${target}${path}`, method, passed, body)
  if (decision === 'lose') {
    response.destroy()
    return
  }
  if (typeof decision === 'object' && 'passThen' in decision) response.writeHead(decision.passThen.status).end(decision.passThen.body)
  else response.writeHead(answer.status, answer.headers).end(answer.body)
}

async function forward(url: string, method: string, headers: IncomingMessage['headers'], body: Buffer) {
  const sent = sendRequest(url, { method, headers: { ...headers, host: new URL(url).host }, agent: false })
  sent.end(body)
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  return { status: answer.statusCode ?? 502, headers: answer.headers, body: await readAll(answer) }
}

async function readAll(stream: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of stream) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}
