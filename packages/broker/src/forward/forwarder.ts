// Forwards requests to the pipelines and preview programs. The broker has authenticated and authorized the caller; only method, path, query
// and body travel on, and only status, body and cursor come back.
import { randomBytes } from 'node:crypto'
import { queryText } from '@brokkr/contract/endpoint.ts'
import { ApiError, type ErrorCode } from '@brokkr/contract/errors.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { Failure } from '@brokkr/runtime/errors.ts'
import type { Allow } from '@brokkr/runtime/http-client/address.ts'
import type { Outbound, OutboundOptions, OutboundRequest } from '@brokkr/runtime/http-client/outbound-client.ts'
import type { Secret } from '@brokkr/runtime/secret.ts'
import { type ForwardedAnswer, requirePipelinesSuccess, requirePreviewSuccess, signRequest } from './rules.ts'

export interface ForwardSettings {
  readonly pipelines_url: string | null
  readonly pipelines_key: Secret | null
  readonly dataflow_preview_url: string | null
  readonly forward_seconds: number
}

export interface PipelinesRequest {
  readonly method: 'GET' | 'POST'
  /** Segments of the path, not encoded. */
  readonly path: readonly string[]
  readonly query?: Readonly<Record<string, unknown>>
  readonly body?: unknown
  /** Name of the caller. */
  readonly approver: string
  /** Unique per caller: the program makes a repeated change once and knows callers by their names only. */
  readonly idempotencyKey?: string | undefined
  readonly signal: AbortSignal
}

export interface Forwarder {
  /** Throws ApiError: `pipelines_unavailable`, or the refusal of the program. */
  toPipelines(request: PipelinesRequest): Promise<ForwardedAnswer>
  /** Throws ApiError: `preview_unavailable`, or the refusal of the program. */
  toPreview(request: { readonly body: string; readonly signal: AbortSignal }): Promise<ForwardedAnswer>
  close(): Promise<void>
}

/** The operator names these addresses, so they may be anywhere. */
const anyAddress: Allow = { cidrs: ['0.0.0.0/0', '::/0'] }
const answerBytesMax = 16 * 1024 * 1024
const connectionsPerOrigin = 32

export function createForwarder(deps: { clock: Clock }, options: { settings: ForwardSettings; userAgent: string }): Forwarder {
  const { settings, userAgent } = options
  const outbound = createLazyOutbound({ allow: anyAddress, answerBytesMax, connectionsPerOrigin, connectTimeoutMs: 5_000, userAgent })

  async function send(request: OutboundRequest, unavailable: ErrorCode, program: string): Promise<ForwardedAnswer> {
    try {
      const { status, headers, body } = await outbound.request({ ...request, timeoutMs: settings.forward_seconds * 1000 })
      const header = (name: string) => (typeof headers[name] === 'string' ? headers[name] : null)
      return { status, text: body.toString('utf8'), nextCursor: header('x-next-cursor'), retryAfter: header('retry-after') }
    } catch (error) {
      if (!(error instanceof Failure)) throw error
      throw new ApiError(unavailable, `${program} cannot be reached: ${error.message}`, { retryAfterSeconds: 5, cause: error })
    }
  }

  return {
    toPipelines: async ({ method, path, query, body, approver, idempotencyKey, signal }) => {
      const { pipelines_url: url, pipelines_key: key } = settings
      if (url === null || key === null)
        throw new ApiError('pipelines_unavailable', 'this broker knows no pipelines program: set broker.pipelines_url')
      const target = joinTarget(url, path) + queryText(query)
      const text = body === undefined ? '' : JSON.stringify(body)
      const timestampSeconds = Math.floor(deps.clock.now() / 1000)
      const unsigned = { method, target, body: text, approver, timestampSeconds, nonce: randomBytes(16).toString('hex') }
      const headers = {
        ...signRequest(unsigned, key.reveal()),
        accept: 'application/json',
        ...(text === '' ? {} : { 'content-type': 'application/json' }),
        ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
      }
      const request = { url: new URL(target, url), method, headers, signal, ...(text === '' ? {} : { body: text }) }
      return requirePipelinesSuccess(await send(request, 'pipelines_unavailable', 'the pipelines program'))
    },
    toPreview: async ({ body, signal }) => {
      const { dataflow_preview_url: url } = settings
      if (url === null) throw new ApiError('preview_unavailable', 'this broker knows no preview program: set broker.dataflow_preview_url')
      const headers = { 'content-type': 'application/json', accept: 'application/json' }
      const request = { url: new URL(joinTarget(url, ['preview']), url), method: 'POST' as const, headers, body, signal }
      return requirePreviewSuccess(await send(request, 'preview_unavailable', 'the preview program'))
    },
    close: () => outbound.close(),
  }
}

/** Below the path of the address, so that the program may stand behind a prefix. */
const joinTarget = (url: string, path: readonly string[]): string =>
  [new URL(url).pathname.replace(/\/+$/, ''), ...path.map(encodeURIComponent)].join('/')

/** The HTTP client for other hosts, loaded with the first request, which saves memory in brokers that send none. */
export function createLazyOutbound(options: OutboundOptions): Outbound {
  let opening: Promise<Outbound> | null = null
  const load = () =>
    (opening ??= import('@brokkr/runtime/http-client/outbound-client.ts').then(({ createOutbound }) => createOutbound({}, options)))
  return {
    request: async (request) => (await load()).request(request),
    open: async (request) => (await load()).open(request),
    close: async () => (await opening)?.close(),
  }
}
