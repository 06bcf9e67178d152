// The stored response of a request with an Idempotency-Key, and the response to a repeated request.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Seal } from '../../seal.ts'
import type { KeyedCall } from '../request/idempotency.ts'
import { largeBodyBytes } from '../request/large-body.ts'
import type { StoredAnswer } from '../store/idempotency-keys.ts'
import type { HttpResponse } from './send-response.ts'

export interface Outcome {
  readonly result: 'stored' | 'replayed' | 'reused' | 'in_progress'
  readonly answer: HttpResponse | ApiError
}

/** Stored instead of a response that contains a secret. */
interface IssuedSecret {
  readonly id: string | null
}

export async function sealResponse(seal: Seal, call: KeyedCall, answer: HttpResponse, id: string) {
  return { id, status: answer.status, body_sealed: await sealBody(seal, call, answer.body, id) }
}

async function sealBody(seal: Seal, { issuesSecret }: KeyedCall, body: HttpResponse['body'], id: string): Promise<Buffer> {
  if (issuesSecret)
    return seal.seal(toEncryptionContext(id), JSON.stringify({ id: findResourceId(body.toString()) } satisfies IssuedSecret))
  if (body.length <= largeBodyBytes) return seal.seal(toEncryptionContext(id), body.toString())
  return seal.sealInThread(toEncryptionContext(id), Buffer.from(body))
}

const toEncryptionContext = (id: string) => ({ table: 'idempotency_keys', column: 'body_sealed', id })

export function toReplayedResponse(seal: Seal, call: KeyedCall, row: StoredAnswer): Outcome {
  if (row.body_hash !== call.bodyHash) {
    const message = 'this Idempotency-Key was used with another body: a new call needs a new key'
    return { result: 'reused', answer: new ApiError('idempotency_key_reused', message) }
  }
  if (row.status === null || row.body_sealed === null) return inProgress()
  const plaintext = seal.open(toEncryptionContext(row.id), row.body_sealed)
  if (!call.issuesSecret) return { result: 'replayed', answer: { status: row.status, headers: replayHeaders(plaintext), body: plaintext } }
  const { id } = JSON.parse(plaintext) as IssuedSecret
  const message = 'the call succeeded earlier and its secret is not shown again; rotate it to get a new one'
  const details = id === null ? {} : { id }
  return { result: 'replayed', answer: new ApiError('secret_already_issued', message, { details }) }
}

const replayHeaders = (body: string): Record<string, string> => ({
  'idempotency-replayed': 'true',
  ...(body === '' ? {} : { 'content-type': 'application/json; charset=utf-8' }),
})

export const inProgress = (): Outcome => ({
  result: 'in_progress',
  answer: new ApiError(
    'idempotency_in_progress',
    'a request with this Idempotency-Key is still in progress; retry after the `Retry-After` time',
    {
      retryAfterSeconds: 1,
    },
  ),
})

/** Id of the created resource: of the response itself or of its only nested resource. */
function findResourceId(body: string): string | null {
  const value = (body === '' ? null : JSON.parse(body)) as Record<string, unknown> | null
  const candidates = [value, ...Object.values(value ?? {})]
  const found = candidates.map((each) => (typeof each === 'object' && each !== null && 'id' in each ? each.id : null)).find(Boolean)
  return typeof found === 'string' ? found : null
}
