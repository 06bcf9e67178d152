// Sends one message to one receiver with a single POST. The outbound client checks every address and follows no redirect. This is the only
// code of the broker that calls receivers. Results contain neither path nor credential.

import { createHmac, randomBytes } from 'node:crypto'
import { STATUS_CODES } from 'node:http'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Outbound, ResponseHead } from '@brokkr/runtime/http-client/outbound-client.ts'
import type { OpenedParts } from '../subscriptions/sealed-parts.ts'
import { type AttemptResult, classifyStatusCode } from './rules/delivery-states.ts'

export interface Message extends OpenedParts {
  readonly deliveryId: string
  readonly eventType: string
  readonly payload: string
  readonly timeoutMs: number
}
export interface DeliverDeps {
  readonly outbound: Pick<Outbound, 'request'>
  readonly clock: Clock
}
/** The response of the receiver, for operators. */
export type Sent = AttemptResult & { readonly body: string }

const answerBytesMax = 64 * 1024
const errorCharsMax = 200
const bodyCharsMax = 500

/** Throws only if `signal` aborts; then it is unknown whether the message arrived. */
export async function deliver({ outbound, clock }: DeliverDeps, message: Message, signal: AbortSignal): Promise<Sent> {
  const { url, payload, timeoutMs } = message
  try {
    const headers = buildHeaders(message, Math.floor(clock.now() / 1000))
    const answer = await outbound.request({
      url,
      method: 'POST',
      headers,
      body: payload,
      timeoutMs,
      answerBytesMax,
      overflow: 'cut',
      signal,
    })
    return toSendResult(answer, toPlainText(answer.body.toString('utf8')))
  } catch (error) {
    signal.throwIfAborted()
    return { is: 'retry', statusCode: null, error: truncate(toPlainText(errorText(error)), errorCharsMax), body: '' }
  }
}

function buildHeaders(message: Message, unixSeconds: number): Record<string, string> {
  const { deliveryId, eventType, payload, authHeader, secrets } = message
  return {
    'content-type': 'application/json',
    accept: '*/*',
    ...(authHeader === null ? {} : { authorization: authHeader }),
    'x-brokkr-event-type': eventType,
    'x-brokkr-delivery-id': deliveryId,
    ...buildSignatureHeaders({ deliveryId, payload, unixSeconds, secrets }),
  }
}

function toSendResult({ status: statusCode, headers }: ResponseHead, text: string): Sent {
  const is = classifyStatusCode(statusCode)
  const body = truncate(text, bodyCharsMax)
  if (is === 'delivered') return { is, statusCode, body }
  const error = truncate(`${statusText(statusCode)}${text === '' ? '' : `: ${text}`}`, errorCharsMax)
  return is === 'permanentFailure'
    ? { is, statusCode, error, body }
    : { is, statusCode, error, body, retryAfterSeconds: parseRetryAfter(headers) }
}

export const statusText = (statusCode: number): string =>
  `HTTP ${statusCode}${statusCode in STATUS_CODES ? ` ${STATUS_CODES[statusCode]}` : ''}`

/** Supports seconds only; a date would depend on the clock of the receiver. */
function parseRetryAfter({ 'retry-after': header }: ResponseHead['headers']): number | undefined {
  return typeof header === 'string' && /^\d{1,9}$/.test(header) ? Number(header) : undefined
}

/** Untrusted text on one line. */
export const toPlainText = (text: string): string =>
  text
    .replaceAll(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\uFFFD]+/gu, ' ')
    .replaceAll(/ {2,}/g, ' ')
    .trim()

/** Never splits a surrogate pair. */
export const truncate = (text: string, chars: number): string =>
  Array.from(text.slice(0, chars * 2))
    .slice(0, chars)
    .join('')

// Signs a delivery according to Standard Webhooks: id, time and body with a shared secret. The id is that of the delivery and equal in all
// attempts, so that a receiver can detect duplicates.

const prefix = 'whsec_'

export const createSigningSecret = (): string => `${prefix}${randomBytes(32).toString('base64')}`

export interface SignatureInput {
  readonly deliveryId: string
  readonly payload: string
  readonly unixSeconds: number
  /** During a rotation: the old and the new secret. */
  readonly secrets: readonly string[]
}

export function buildSignatureHeaders({ deliveryId, payload, unixSeconds, secrets }: SignatureInput): Record<string, string> {
  const signed = `${deliveryId}.${unixSeconds}.${payload}`
  return {
    'webhook-id': deliveryId,
    'webhook-timestamp': String(unixSeconds),
    'webhook-signature': secrets
      .map((secret) => `v1,${createHmac('sha256', decodeSecret(secret)).update(signed).digest('base64')}`)
      .join(' '),
  }
}

const decodeSecret = (secret: string): Buffer => Buffer.from(secret.slice(prefix.length), 'base64')
