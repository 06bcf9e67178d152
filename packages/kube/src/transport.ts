// HTTP to one API server: connections kept alive, credentials put on, answers bounded, every failure a KubeError. It repeats nothing,
// but for one 401 after which the credential turned out to be renewed.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { type Answer, errorOfAnswer } from './answer-error.ts'
import { KubeError } from './api-error.ts'
import { Body } from './body.ts'
import { firstLine, headerLines, KnownLines } from './call-text.ts'
import { type Agents, createConnections } from './connections.ts'
import type { Credentials } from './credentials.ts'
import { type Deadline, startDeadline } from './deadline.ts'
import { type CallText, createExchanges } from './exchange.ts'
import type { Gate } from './gate.ts'
import type { Impersonation, KubeConfig } from './kube-config.ts'
import type { StreamCall } from './stream-connections.ts'
import { isPacked, unpack } from './unpack.ts'

export interface Send {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Path and query below the server address. */
  path: string
  body?: string | Uint8Array | undefined
  contentType?: string | undefined
  accept?: string | undefined
  timeoutMs?: number | undefined
  signal?: AbortSignal | undefined
  as?: Impersonation | undefined
  /** Passes by the gate: leases and probes must not wait behind a backlog. */
  urgent?: boolean | undefined
  /** Called right before the bytes leave; a throw keeps them here. */
  guard?: (() => void) | undefined
  headers?: Record<string, string> | undefined
  /** For `open`: this body has an end, so that the time limit covers it, and the gate is asked. */
  ends?: boolean | undefined
}

export interface OpenAnswer {
  status: number
  headers: Answer['headers']
  body: Body
  /** Must be called when the body is read or given up. */
  close(): void
}

export interface Transport {
  send(request: Send): Promise<Answer>
  /** For bodies that are read as they come. Where they have no end, the time limit covers the headers alone and the gate is not asked. */
  open(request: Send): Promise<OpenAnswer>
  close(): Promise<void>
}

export interface TransportOptions {
  timeoutMs: number
  answerBytesMax: number
  userAgent: string
}

export interface TransportDeps {
  config: KubeConfig
  credentials: Credentials
  gate: Gate
  clock: Clock
  signal: AbortSignal
}

export function createTransport(deps: TransportDeps, options: TransportOptions): Transport {
  const { origin, host, pathname } = new URL(deps.config.server)
  const prefix = pathname === '/' ? '' : pathname
  const connections = createConnections(deps)
  const exchanges = createExchanges(deps.signal)
  const known = new KnownLines()

  /** Both are mostly at hand, and waiting for what is there costs every call a turn. */
  async function prepare(): Promise<Prepared> {
    const [agents, token] = await Promise.all([connections.agents(), deps.credentials.token()])
    return { agents, token }
  }

  function atHand(): Prepared | undefined {
    const agents = connections.agentsNow()
    const held = agents && deps.credentials.tokenNow()
    return agents && held && { agents, token: held.token }
  }

  /** Everything that is known before the bytes leave. */
  function callOf(request: Send, token: string | undefined): StreamCall {
    const headers = headersOf(request, options.userAgent, token, request.as ?? deps.config.as)
    return { origin, path: prefix + request.path, method: request.method, headers }
  }

  function textOf(request: Send, token: string | undefined): CallText {
    const { accept = '', contentType = '', as, body, guard } = request
    const headers = () => ({ host, ...headersOf(request, options.userAgent, token, as ?? deps.config.as) })
    const isUsual = as === undefined && request.headers === undefined
    const lines = isUsual ? known.of(`${accept}\n${contentType}\n${body === undefined}\n${token}`, headers) : headerLines(headers())
    return { head: firstLine(request.method, prefix + request.path) + lines, body, guard }
  }

  const what = (request: Send): string => `${request.method} ${deps.config.server}${request.path.split('?')[0]}`

  async function send(request: Send): Promise<Answer> {
    const leave = request.urgent ? () => undefined : (deps.gate.enterNow() ?? (await deps.gate.enter(request.signal)))
    try {
      const answer = await exchange(request)
      const isRenewed = answer.status === 401 && (await deps.credentials.renew())
      if (isRenewed) connections.recheck()
      const last = isRenewed ? await exchange(request) : answer
      return last.status < 300 ? last : await refuse(what(request), last)
    } catch (error) {
      throw errorOfSend(what(request), error, [request.signal, deps.signal])
    } finally {
      leave()
    }
  }

  async function exchange(request: Send): Promise<Answer> {
    const { agents, token } = atHand() ?? (await prepare())
    const timeoutMs = request.timeoutMs ?? options.timeoutMs
    return exchanges.send(agents.calls, textOf(request, token), {
      timeoutMs,
      bytesMax: options.answerBytesMax,
      signal: request.signal,
      timedOut: () => new KubeError(`${what(request)}: no answer within ${timeoutMs} ms`, { reason: 'TimedOut' }),
      tooLarge: () =>
        new KubeError(`${what(request)}: the answer is larger than ${options.answerBytesMax} bytes; ask for smaller pages`, {
          reason: 'AnswerTooLarge',
        }),
      badPacking: (cause) => new KubeError(`${what(request)}: ${cause.message}`, { reason: 'BadAnswer', cause }),
    })
  }

  async function refuse(call: string, answer: Answer): Promise<never> {
    const error = errorOfAnswer(call, answer)
    if (error.reason !== 'Unauthorized') throw error
    throw new KubeError(`${error.message}. ${await deps.credentials.explain()}`, {
      reason: 'Unauthorized',
      status: 401,
      details: error.details,
    })
  }

  async function open(request: Send): Promise<OpenAnswer> {
    const leave = request.ends ? await deps.gate.enter(request.signal) : () => undefined
    const deadline = startDeadline(request.timeoutMs ?? options.timeoutMs, [request.signal, deps.signal])
    try {
      const first = await begin(request, deadline)
      const { status, headers, body } = first.status === 401 ? await beginAgain(first, request, deadline) : first
      if (status >= 300)
        await refuse(what(request), { status, headers, text: await readText(what(request), body, headers, options.answerBytesMax) })
      if (!request.ends) deadline.lift()
      const close = (): void => {
        closeBody(body, deadline)
        leave()
      }
      return { status, headers, body, close }
    } catch (error) {
      deadline.clear()
      leave()
      throw errorOfSend(what(request), error, [request.signal, deps.signal])
    }
  }

  async function begin(request: Send, deadline: Deadline): Promise<Begun> {
    const { agents, token } = await prepare()
    request.guard?.()
    const call = callOf(request, token)
    const body = new Body()
    const abort = (): void => body.close(deadline.timedOut ? timedOut(request, deadline) : (deadline.signal.reason as Error))
    if (deadline.signal.aborted) abort()
    else {
      deadline.signal.addEventListener('abort', abort, { once: true })
      if (request.ends) agents.streams.list(call, body)
      else agents.streams.watch(call, body)
    }
    return { ...(await body.head), body }
  }

  async function beginAgain(refused: Begun, request: Send, deadline: Deadline): Promise<Begun> {
    if (!(await deps.credentials.renew())) return refused
    refused.body.close(new Error('refused'))
    connections.recheck()
    return begin(request, deadline)
  }

  const timedOut = (request: Send, deadline: Deadline): KubeError =>
    new KubeError(`${what(request)}: ${(deadline.signal.reason as Error).message}`, { reason: 'TimedOut' })

  return { send, open, close: async () => connections.close() }
}

type Begun = Omit<OpenAnswer, 'close'>

interface Prepared {
  readonly agents: Agents
  readonly token: string | undefined
}

function closeBody(body: Body, deadline: Deadline): void {
  deadline.clear()
  body.close(new Error('no longer wanted'))
}

function headersOf(
  request: Send,
  userAgent: string,
  token: string | undefined,
  as: Impersonation | undefined,
): Record<string, string | string[]> {
  return {
    accept: request.accept ?? 'application/json',
    'user-agent': userAgent,
    ...(token ? { authorization: `Bearer ${token}` } : {}),
    ...(request.body === undefined ? {} : { 'content-type': request.contentType ?? 'application/json' }),
    ...(as ? impersonationHeaders(as) : {}),
    ...request.headers,
  }
}

function impersonationHeaders(as: Impersonation): Record<string, string | string[]> {
  const extra = Object.entries(as.extra ?? {}).map(([key, values]) => [`Impersonate-Extra-${encodeURIComponent(key)}`, values] as const)
  return {
    'Impersonate-User': as.user,
    ...(as.groups?.length ? { 'Impersonate-Group': as.groups } : {}),
    ...(as.uid ? { 'Impersonate-Uid': as.uid } : {}),
    ...Object.fromEntries(extra),
  }
}

async function readText(what: string, body: Body, headers: Answer['headers'], bytesMax: number): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body) {
    bytes += chunk.length
    if (bytes > bytesMax) {
      const error = new KubeError(`${what}: the answer is larger than ${bytesMax} bytes`, { reason: 'AnswerTooLarge' })
      body.close(error)
      throw error
    }
    chunks.push(chunk)
  }
  const whole = Buffer.concat(chunks, bytes)
  return (isPacked(headers) ? unpack(whole, bytesMax) : whole).toString('utf8')
}

/** Whoever aborted gets his own reason back; everything else becomes a KubeError. */
export function errorOfSend(what: string, error: unknown, signals: ReadonlyArray<AbortSignal | undefined>): unknown {
  if (error instanceof KubeError) return error
  const aborted = signals.find((signal) => signal?.aborted)
  if (aborted) return aborted.reason
  if (!(error instanceof Error) || !('code' in error)) return error
  const code = String(error.code)
  if (!/CERT|TLS|SSL|SELF_SIGNED|VERIFY/.test(code))
    return new KubeError(`${what}: ${code}: ${error.message}`, { reason: 'Unreachable', cause: error })
  return new KubeError(
    `${what}: the server's certificate is not trusted (${code}): ${error.message}. Check certificate-authority of the kubeconfig`,
    {
      reason: 'Untrusted',
      cause: error,
    },
  )
}
