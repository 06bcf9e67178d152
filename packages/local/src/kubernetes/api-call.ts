// Untyped HTTPS calls to an API server, for the start of a cluster and for tests.
import { Agent, request } from 'node:https'

export type ApiOptions = { body?: unknown; contentType?: string; token?: string; timeoutMs?: number }
export type ApiResponse<T> = { status: number; json: T }
export type KubeApi = {
  /** `json` is the parsed body, or its text if it is not JSON. */
  call: <T = unknown>(method: string, path: string, options?: ApiOptions) => Promise<ApiResponse<T>>
  close: () => void
}

const bodyBytesMax = 256 * 1024 * 1024

export function openKubeApi(cluster: { url: string; caPem: string; token: string }): KubeApi {
  const agent = new Agent({ keepAlive: true, maxSockets: 32, ca: cluster.caPem })
  return {
    call: (async (method, path, options = {}) => {
      const { status, text } = await send(agent, new URL(path, cluster.url), method, { token: cluster.token, ...options })
      return { status, json: parse(text) }
    }) as KubeApi['call'],
    close: () => agent.destroy(),
  }
}

function send(agent: Agent, url: URL, method: string, options: ApiOptions): Promise<{ status: number; text: string }> {
  const { body, contentType = 'application/json', token = '', timeoutMs = 30_000 } = options
  const content = body === undefined ? undefined : JSON.stringify(body)
  const headers = { authorization: `Bearer ${token}`, accept: 'application/json', ...(content ? { 'content-type': contentType } : {}) }
  return new Promise((resolve, reject) => {
    const fail = (cause: Error) => reject(new Error(`${method} ${url.href}: ${cause.message}`, { cause }))
    const outgoing = request(url, { agent, method, headers, signal: AbortSignal.timeout(timeoutMs) }, (response) => {
      const chunks: Buffer[] = []
      let bytes = 0
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length
        if (bytes > bodyBytesMax) response.destroy(new Error(`the answer is larger than ${bodyBytesMax} bytes`))
        else chunks.push(chunk)
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString('utf8') }))
      response.on('error', fail)
    })
    outgoing.on('error', fail)
    outgoing.end(content)
  })
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
