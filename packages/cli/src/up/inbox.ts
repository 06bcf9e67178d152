// The inbox of the demo: a page on loopback that shows the webhook deliveries it received. It keeps the newest ones in memory and
// accepts only requests that are signed with the secret of the demo's webhook.
import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Inbox {
  readonly port: number
  readonly url: string
  close(): Promise<void>
}
interface Received {
  readonly id: string
  readonly at: string
  readonly type: string
  readonly body: string
}

const keptMax = 100
const bodyBytesMax = 1024 * 1024
/** Older signatures could be replayed. */
const signatureAgeSeconds = 300

/** `port`: used again if it is free, so that the address of the webhook stays. */
export async function startInbox(given: { readonly port: number | null; readonly secret: () => string | null }): Promise<Inbox> {
  const received: Received[] = []
  const server = createServer((request, response) => {
    answer(request, response, { received, secret: given.secret }).catch(() => end(response, 400, 'the request could not be read'))
  })
  server.requestTimeout = 10_000
  const port = await listen(server, given.port ?? 0).catch(() => listen(server, 0))
  return {
    port,
    url: `http://127.0.0.1:${port}/`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

function listen(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host: '127.0.0.1', port, exclusive: true }, () => {
      server.off('error', reject)
      resolve((server.address() as AddressInfo).port)
    })
  })
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  { received, secret }: { received: Received[]; secret: () => string | null },
): Promise<void> {
  // A page of another site could otherwise reach the inbox under a name of its own.
  if (!/^(127\.0\.0\.1|localhost)(:\d+)?$/.test(request.headers.host ?? '')) return end(response, 421, 'unknown host')
  if (request.method === 'GET' || request.method === 'HEAD') return end(response, 200, buildPage(received), 'text/html; charset=utf-8')
  if (request.method !== 'POST') return end(response, 405, 'only GET and POST')
  const body = await readBody(request)
  if (body === null) return end(response, 413, `at most ${bodyBytesMax} bytes`)
  const key = secret()
  if (key === null || !isSigned(request, body, key)) return end(response, 401, 'the signature is missing, wrong or too old')
  const id = String(request.headers['webhook-id'])
  // A repeated attempt of the same delivery is one message.
  if (!received.some((one) => one.id === id)) received.unshift({ id, at: new Date().toISOString(), type: typeOf(body), body })
  received.length = Math.min(received.length, keptMax)
  return end(response, 204, '')
}

async function readBody(request: IncomingMessage): Promise<string | null> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > bodyBytesMax) return null
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

/** Standard Webhooks: one of the signatures is that of id, time and body. */
export function isSigned({ headers }: Pick<IncomingMessage, 'headers'>, body: string, secret: string, nowMs = Date.now()): boolean {
  const [id, time, signatures] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => String(headers[name] ?? ''))
  if (!(Math.abs(nowMs / 1000 - Number(time)) <= signatureAgeSeconds)) return false
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const expected = Buffer.from(`v1,${createHmac('sha256', key).update(`${id}.${time}.${body}`).digest('base64')}`)
  return signatures!.split(' ').some((text) => {
    const given = Buffer.from(text)
    return given.length === expected.length && timingSafeEqual(given, expected)
  })
}

function typeOf(body: string): string {
  try {
    const { event_type: type } = JSON.parse(body) as { event_type?: unknown }
    return typeof type === 'string' ? type : 'event'
  } catch {
    return 'event'
  }
}

const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`).replace(/(?![\n\t])\p{Cc}/gu, '·')

function buildPage(received: readonly Received[]): string {
  const rows = received.map(
    ({ at, type, body }) => `<article><h2>${escapeHtml(type)}</h2><time>${escapeHtml(at)}</time><pre>${escapeHtml(body)}</pre></article>`,
  )
  const empty = '<p>No event yet. Change something: brokkr apply, brokkr rollback, brokkr hold.</p>'
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="5"><title>Brokkr inbox</title></head>
<body><h1>Inbox of webhook demo-inbox</h1>${rows.length === 0 ? empty : rows.join('\n')}</body></html>\n`
}

function end(response: ServerResponse, status: number, text: string, type = 'text/plain; charset=utf-8'): void {
  if (response.headersSent) return
  response.writeHead(status, {
    'content-type': type,
    'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
    'x-content-type-options': 'nosniff',
    'cache-control': 'no-store',
  })
  response.end(text)
}
