// Sends one message to one receiver: a single POST by the outbound client, which checks every address and follows nothing. The only place
// of the broker that talks to receivers. What it returns says how it went, in words that name neither path nor credential.
import { STATUS_CODES } from 'node:http'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { AnswerHead, Outbound } from '@brokkr/runtime/outbound.ts'
import { meaningOf, type Tried } from '../domain/delivery-states.ts'
import type { OpenedParts } from './sealed-parts.ts'
import { signatureHeaders } from './sign.ts'

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
/** What the receiver said, for people. */
export type Sent = Tried & { readonly body: string }

const answerBytesMax = 64 * 1024
const errorCharsMax = 200
const bodyCharsMax = 500

/** Throws only when `signal` ends it: nobody knows then whether it arrived. */
export async function deliver({ outbound, clock }: DeliverDeps, message: Message, signal: AbortSignal): Promise<Sent> {
  const { url, payload, timeoutMs } = message
  try {
    const headers = headersOf(message, Math.floor(clock.now() / 1000))
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
    return sentOf(answer, plain(answer.body.toString('utf8')))
  } catch (error) {
    signal.throwIfAborted()
    return { is: 'again', statusCode: null, error: cut(plain(errorText(error)), errorCharsMax), body: '' }
  }
}

function headersOf(message: Message, unixSeconds: number): Record<string, string> {
  const { deliveryId, eventType, payload, authHeader, secrets } = message
  return {
    'content-type': 'application/json',
    accept: '*/*',
    ...(authHeader === null ? {} : { authorization: authHeader }),
    'x-brokkr-event-type': eventType,
    'x-brokkr-delivery-id': deliveryId,
    ...signatureHeaders({ deliveryId, payload, unixSeconds, secrets }),
  }
}

function sentOf({ status: statusCode, headers }: AnswerHead, text: string): Sent {
  const is = meaningOf(statusCode)
  const body = cut(text, bodyCharsMax)
  if (is === 'delivered') return { is, statusCode, body }
  const error = cut(`${statusText(statusCode)}${text === '' ? '' : `: ${text}`}`, errorCharsMax)
  return is === 'hopeless' ? { is, statusCode, error, body } : { is, statusCode, error, body, retryAfterSeconds: retryAfterOf(headers) }
}

export const statusText = (statusCode: number): string =>
  `HTTP ${statusCode}${statusCode in STATUS_CODES ? ` ${STATUS_CODES[statusCode]}` : ''}`

/** Seconds; a date is not worth the trouble of two clocks. */
function retryAfterOf({ 'retry-after': given }: AnswerHead['headers']): number | undefined {
  return typeof given === 'string' && /^\d{1,9}$/.test(given) ? Number(given) : undefined
}

/** What a stranger wrote, on one line. */
export const plain = (text: string): string =>
  text
    .replaceAll(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\uFFFD]+/gu, ' ')
    .replaceAll(/ {2,}/g, ' ')
    .trim()

/** Never through the middle of a character. */
export const cut = (text: string, chars: number): string =>
  Array.from(text.slice(0, chars * 2))
    .slice(0, chars)
    .join('')
