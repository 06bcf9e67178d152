// Stands between an agent and a real API server, passes every byte on and writes down what was asked: deletes and writes are
// counted here, where they arrive, and never by the agent itself. A test may answer a request in the server's place.
import { writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { issueCertificate } from '@brokkr/runtime/certificates.ts'
import type { TestCluster } from '@brokkr/testing/servers/kube.ts'
import { callServers } from '@brokkr/testing/servers/owner/client.ts'
import { afterAll } from 'vitest'

export interface ApiRequest {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly as: string | null
  readonly isDryRun: boolean
  /** Of writes; empty for reads. */
  readonly body: string
  readonly atMs: number
  /** Undefined while it is under way. */
  status?: number
  doneMs?: number
}
/** True: the request was answered here and does not reach the API server. It waits for a promise. */
export type Intercept = (request: ApiRequest, response: ServerResponse) => boolean | Promise<boolean>

export interface ApiRecorder {
  readonly url: string
  readonly caPem: string
  readonly kubeconfigPath: string
  readonly requests: ApiRequest[]
  /** From now on. */
  intercept(intercept: Intercept | null): void
  /** Deletes that the API server carried out or refused, dry runs apart. */
  deletes(): string[]
  /** Everything that could change the cluster, dry runs and the agent's own Secrets apart. */
  writes(): string[]
  clear(): void
}

export async function apiRecorder(at: Pick<TestCluster, 'url' | 'caPem' | 'token'>): Promise<ApiRecorder> {
  const requests: ApiRequest[] = []
  let intercept: Intercept | null = null
  const upstream = new HttpsAgent({ ca: at.caPem, keepAlive: true, maxSockets: 256 })
  const { ca, leaf } = await certificates()
  const server = createServer(leaf, (from, to) => {
    const chunks: Buffer[] = []
    from.on('data', (chunk: Buffer) => chunks.push(chunk))
    from.on('end', () => {
      const body = Buffer.concat(chunks)
      const request = toApiRequest(from, body)
      requests.push(request)
      to.once('close', () => {
        request.doneMs = performance.now()
      })
      const isIntercepted = intercept?.(request, to) ?? false
      const go = (isTaken: boolean) => {
        if (isTaken) request.status = to.statusCode
        else passOn(at, upstream, from, to, body, request)
      }
      if (typeof isIntercepted === 'boolean') go(isIntercepted)
      else void isIntercepted.then(go)
    })
  })
  server.keepAliveTimeout = 60_000
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterAll(() => {
    server.closeAllConnections()
    server.close()
    upstream.destroy()
  })
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
  const kubeconfigPath = await writeKubeconfig(url, ca.cert, at.token)
  const isWrite = ({ method, isDryRun }: ApiRequest) => method !== 'GET' && !isDryRun
  return {
    url,
    caPem: ca.cert,
    kubeconfigPath,
    requests,
    intercept: (next) => {
      intercept = next
    },
    deletes: () => requests.filter((each) => each.method === 'DELETE' && isWrite(each)).map(({ path }) => path),
    writes: () =>
      requests
        .filter((each) => isWrite(each) && !/\/secrets\/brokkr-/.test(each.path))
        .map(({ method, path }) => `${method} ${path.split('/').slice(-2).join('/')}`),
    clear: () => void requests.splice(0),
  }
}

async function certificates() {
  const ca = await issueCertificate({ commonName: 'recorder', isCa: true })
  return { ca, leaf: await issueCertificate({ commonName: 'recorder', issuer: ca, usages: ['server'], hosts: ['127.0.0.1'] }) }
}

function toApiRequest(from: IncomingMessage, body: Buffer): ApiRequest {
  const { pathname, searchParams } = new URL(from.url ?? '/', 'https://api')
  const as = from.headers['impersonate-user']
  return {
    method: from.method ?? '',
    path: pathname,
    query: searchParams,
    as: typeof as === 'string' ? as : null,
    isDryRun: searchParams.has('dryRun'),
    body: body.toString('utf8'),
    atMs: performance.now(),
  }
}

function passOn(at: { url: string }, agent: HttpsAgent, from: IncomingMessage, to: ServerResponse, body: Buffer, asked: ApiRequest): void {
  const headers = { ...from.headers, host: new URL(at.url).host }
  const onward = httpsRequest(at.url + (from.url ?? '/'), { method: from.method, headers, agent }, (answer) => {
    asked.status = answer.statusCode ?? 0
    to.writeHead(answer.statusCode ?? 502, answer.headers)
    to.flushHeaders()
    answer.pipe(to)
    answer.on('error', () => to.destroy())
  })
  onward.on('error', () => to.destroy())
  to.on('close', () => onward.destroy())
  onward.end(body)
}

async function writeKubeconfig(server: string, caPem: string, token: string): Promise<string> {
  const folder = await callServers('loan.folder', { kind: 'plain' })
  const path = join(folder, 'kubeconfig')
  const cluster = { server, 'certificate-authority-data': Buffer.from(caPem).toString('base64') }
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'c', cluster }],
    users: [{ name: 'u', user: { token } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  }
  writeFileSync(path, JSON.stringify(config), { mode: 0o600 })
  return path
}

/** An answer as the API server words it. */
export function refuse(
  response: ServerResponse,
  status: number,
  reason: string,
  message: string,
  headers: Record<string, string> = {},
): true {
  response.writeHead(status, { 'content-type': 'application/json', ...headers })
  response.end(JSON.stringify({ kind: 'Status', apiVersion: 'v1', status: 'Failure', code: status, reason, message }))
  return true
}
