// Requests to a forge and what their failures mean: one classifier for all forges. No request is repeated here.
import { errorText, Terminal } from '@brokkr/runtime/errors.ts'
import type { Outbound, OutboundResponse } from '@brokkr/runtime/http-client/outbound-client.ts'
import { redactText } from '@brokkr/runtime/logging/redact-text.ts'
import type { z } from 'zod'
import type { AttemptFailure } from '../strategies/strategy.ts'
import { ForgeError } from './forge.ts'
import type { ForgeAnswers } from './forge-answers.ts'

export interface ForgeHttpDeps {
  readonly outbound: Outbound
  readonly apiUrl: string
  readonly headers: Readonly<Record<string, string>>
  readonly now: () => number
  /** Answers of earlier sessions, for conditional requests. */
  readonly answers?: ForgeAnswers | undefined
  readonly onAnswer?: ((status: number) => void) | undefined
}

export type Query = Readonly<Record<string, string>>

export interface ForgeCall {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH'
  /** Encoded; begins with a slash. */
  readonly path: string
  readonly query?: Query
  readonly body?: object
  /** Status that the caller handles; the answer is then null. */
  readonly expected?: number
  readonly signal: AbortSignal
}

const TIMEOUT_MS = 30_000
const ANSWER_BYTES_MAX = 8 * 1024 * 1024

export class ForgeHttp {
  readonly #deps: ForgeHttpDeps

  constructor(deps: ForgeHttpDeps) {
    this.#deps = deps
  }

  /** Null: the answer had the expected status. Throws ForgeError. */
  async call<S extends z.ZodType>(call: ForgeCall, schema: S): Promise<z.output<S> | null> {
    const answer = await this.#ask(call)
    if (answer.status === call.expected) return null
    const failure = classifyAnswer(answer, { where: this.#where(call), nowMs: this.#deps.now() })
    if (failure !== null) throw new ForgeError(failure)
    const parsed = schema.safeParse(parseJson(answer.body))
    if (!parsed.success) throw this.#unreadable(call)
    return parsed.data
  }

  /** An answer that has not changed is not sent again by forges with entity tags, and does not count at their rate limit. */
  async #ask(call: ForgeCall): Promise<OutboundResponse> {
    const { answers, apiUrl, headers } = this.#deps
    if (answers === undefined || (call.method ?? 'GET') !== 'GET') return this.#send(call)
    const key = JSON.stringify([apiUrl, call.path, call.query ?? {}, headers])
    const known = answers.get(key)
    const answer = await this.#send(call, known === undefined ? {} : { 'if-none-match': known.etag })
    if (answer.status === 304 && known !== undefined) return known.answer
    answers.keep(key, answer)
    return answer
  }

  async #send(call: ForgeCall, more: Record<string, string> = {}): Promise<OutboundResponse> {
    const query = call.query === undefined ? '' : `?${new URLSearchParams(call.query).toString()}`
    try {
      const answer = await this.#deps.outbound.request({
        url: `${this.#deps.apiUrl}${call.path}${query}`,
        method: call.method ?? 'GET',
        headers: { accept: 'application/json', 'content-type': 'application/json', ...this.#deps.headers, ...more },
        ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
        timeoutMs: TIMEOUT_MS,
        answerBytesMax: ANSWER_BYTES_MAX,
        signal: call.signal,
      })
      this.#deps.onAnswer?.(answer.status)
      return answer
    } catch (error) {
      call.signal.throwIfAborted()
      const isFinal = error instanceof Terminal && error.code !== 'answer_too_large'
      const message = redactText(`${this.#where(call)}: ${errorText(error)}`)
      if (isFinal) throw new ForgeError({ outcome: 'failed', class: 'configuration', reason: 'ForgeAddressRefused', message })
      throw new ForgeError({ outcome: 'failed', class: 'transient', reason: 'ForgeUnreachable', message })
    }
  }

  #where = ({ method = 'GET', path }: ForgeCall): string => `${method} ${this.#deps.apiUrl}${path}`

  #unreadable = (call: ForgeCall): ForgeError =>
    new ForgeError({
      outcome: 'failed',
      class: 'transient',
      reason: 'ForgeAnswerUnreadable',
      message: redactText(`${this.#where(call)}: the answer does not have the form of this forge's API`),
    })
}

function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    return undefined
  }
}

const REASONS: Readonly<Record<number, string>> = {
  400: 'ForgeRefusedRequest',
  401: 'AuthenticationFailed',
  403: 'AccessForbidden',
  404: 'RepositoryNotFound',
  422: 'ForgeRefusedRequest',
}

/** Null: success. */
export function classifyAnswer(
  answer: Pick<OutboundResponse, 'status' | 'headers'>,
  at: { where: string; nowMs: number },
): AttemptFailure | null {
  const { status, headers } = answer
  const failed = (kind: AttemptFailure['class'], reason: string): AttemptFailure => ({
    outcome: 'failed',
    class: kind,
    reason,
    message: redactText(`${at.where}: the forge answered ${status}`),
  })
  const isSignInPage = status === 203 || (status < 300 && String(headers['content-type'] ?? '').includes('text/html'))
  if (isSignInPage) return failed('configuration', 'AuthenticationFailed')
  if (status >= 200 && status < 300) return null
  if (status >= 300 && status < 400) return failed('configuration', 'RepositoryMoved')
  const isLimited = headers['retry-after'] !== undefined || headers['x-ratelimit-remaining'] === '0'
  if (status === 429 || (status === 403 && isLimited))
    return { ...failed('rate-limited', 'RateLimited'), retryAfterMs: readRetryAfterMs(headers, at.nowMs) }
  const reason = REASONS[status]
  return reason === undefined ? failed('transient', 'ForgeFailed') : failed('configuration', reason)
}

const WAIT_DEFAULT_MS = 60_000
const WAIT_MAX_MS = 3_600_000

/** Retry-After as seconds or date, else the reset time that GitHub, GitLab and Gitea send; at most an hour. */
export function readRetryAfterMs(headers: OutboundResponse['headers'], nowMs: number): number {
  const after = String(headers['retry-after'] ?? '')
  const reset = String(headers['x-ratelimit-reset'] ?? headers['ratelimit-reset'] ?? '')
  const wait = /^\d+$/.test(after)
    ? Number(after) * 1000
    : after !== ''
      ? Date.parse(after) - nowMs
      : /^\d+$/.test(reset)
        ? Number(reset) * 1000 - nowMs
        : WAIT_DEFAULT_MS
  return Number.isNaN(wait) ? WAIT_DEFAULT_MS : Math.min(Math.max(0, wait), WAIT_MAX_MS)
}
