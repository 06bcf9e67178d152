// Bare repositories behind `git http-backend` in a Node server on loopback, with basic authentication and optional TLS by a private
// authority. Other requests go to `api`, so that a forge shares the host of its repositories.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { issueCertificate } from '@brokkr/runtime/certificates.ts'
import { BareRepository, gitEnvironment } from './git-repository.ts'

export type { BareRepository } from './git-repository.ts'

export interface GitServerOptions {
  /** Requests to Git need them; null: none. */
  readonly auth?: { readonly username: string; readonly password: string } | null
  readonly hasTls?: boolean
  readonly api?: (request: IncomingMessage, response: ServerResponse) => Promise<void>
  /** Decides over every Git request (`{method} {path}`): `drop-before` loses it, `drop-after` loses its answer. */
  readonly fault?: (request: string) => { readonly kind: 'drop-before' | 'drop-after'; readonly onFault: () => void } | null
}

export interface GitServer extends AsyncDisposable {
  readonly url: string
  /** Of the private authority; null without TLS. */
  readonly caPem: string | null
  /** Method and path of every Git request. */
  readonly requests: readonly string[]
  /** Answers every Git request with this status until it is null again. */
  status: { readonly code: number; readonly headers?: Record<string, string> } | null
  /** Awaited before every Git request is answered; a rejection cuts the connection. */
  beforeAnswer: (() => Promise<void>) | null
  createRepository(path: string): Promise<BareRepository>
  close(): Promise<void>
}

export async function gitServer(options: GitServerOptions = {}): Promise<GitServer> {
  const root = await mkdtemp(join(tmpdir(), 'brokkr-git-server-'))
  const requests: string[] = []
  const listener: RequestListener = (request, response) => void answer(request, response).catch(() => response.destroy())
  const tls = options.hasTls === true ? await issueTls() : null
  const server = tls === null ? createServer(listener) : createTlsServer({ cert: tls.certPem, key: tls.keyPem }, listener)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://localhost')
    if (!/\/(info\/refs|git-(upload|receive)-pack)$/.test(url.pathname)) {
      if (options.api === undefined) return void response.writeHead(404).end()
      return options.api(request, response)
    }
    requests.push(`${request.method} ${url.pathname}`)
    await running.beforeAnswer?.()
    if (running.status !== null) return void response.writeHead(running.status.code, running.status.headers).end()
    if (!isAllowed(request, options.auth ?? null)) return void response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end()
    const fault = options.fault?.(`${request.method} ${url.pathname}`) ?? null
    if (fault?.kind !== 'drop-before') await runBackend(root, url, request, fault === null ? response : null)
    if (fault === null) return
    fault.onFault()
    request.socket.destroy()
  }

  const close = async () => {
    server.closeAllConnections()
    server.close()
    await rm(root, { recursive: true, force: true })
  }
  const running: GitServer = {
    url: `${tls === null ? 'http' : 'https'}://127.0.0.1:${port}`,
    caPem: tls?.caPem ?? null,
    requests,
    status: null,
    beforeAnswer: null,
    createRepository: (path) => BareRepository.create(join(root, path)),
    close,
    [Symbol.asyncDispose]: close,
  }
  return running
}

function isAllowed({ headers }: IncomingMessage, auth: GitServerOptions['auth']): boolean {
  if (auth === null || auth === undefined) return true
  return headers.authorization === `Basic ${Buffer.from(`${auth.username}:${auth.password}`).toString('base64')}`
}

/** CGI: headers until an empty line, then the body. */
/** A null response loses the answer. */
async function runBackend(root: string, url: URL, request: IncomingMessage, response: ServerResponse | null): Promise<void> {
  const header = (name: string): string => String(request.headers[name] ?? '')
  const env = gitEnvironment({
    GIT_PROJECT_ROOT: root,
    GIT_HTTP_EXPORT_ALL: '1',
    PATH_INFO: decodeURIComponent(url.pathname),
    QUERY_STRING: url.search.slice(1),
    REQUEST_METHOD: request.method ?? 'GET',
    CONTENT_TYPE: header('content-type'),
    HTTP_CONTENT_ENCODING: header('content-encoding'),
    GIT_PROTOCOL: header('git-protocol'),
    REMOTE_ADDR: '127.0.0.1',
    ...(header('content-length') === '' ? {} : { CONTENT_LENGTH: header('content-length') }),
  })
  const backend = spawn('git', ['http-backend'], { env, stdio: ['pipe', 'pipe', 'ignore'] })
  backend.stdin.on('error', () => {})
  request.pipe(backend.stdin)
  let head: Buffer | null = Buffer.alloc(0)
  for await (const chunk of backend.stdout as AsyncIterable<Buffer>) {
    if (response === null) continue
    if (head === null) {
      response.write(chunk)
      continue
    }
    head = Buffer.concat([head, chunk])
    const end = head.indexOf('\r\n\r\n')
    if (end < 0) continue
    writeHead(response, head.subarray(0, end).toString('latin1'))
    response.write(head.subarray(end + 4))
    head = null
  }
  response?.end()
}

function writeHead(response: ServerResponse, text: string): void {
  const headers = Object.fromEntries(text.split('\r\n').map((line) => [line.split(':')[0]!, line.slice(line.indexOf(':') + 1).trim()]))
  const { Status: status = '200', ...rest } = headers
  response.writeHead(Number(status.split(' ')[0]), rest)
}

async function issueTls(): Promise<{ certPem: string; keyPem: string; caPem: string }> {
  const authority = await issueCertificate({ commonName: 'git-test-authority', isCa: true })
  const { cert, key } = await issueCertificate({
    commonName: '127.0.0.1',
    hosts: ['127.0.0.1'],
    usages: ['server'],
    issuer: authority,
  })
  return { certPem: cert, keyPem: key, caPem: authority.cert }
}
