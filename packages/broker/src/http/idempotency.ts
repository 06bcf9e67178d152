// Idempotency-Key: the call runs inside one transaction that begins with the key's lock and ends with its row, so that the
// effect and the memory of it commit together. A second call with the key gets the stored answer, word for word.
import { hash } from 'node:crypto'
import { ApiError } from '@brokkr/contract/error.ts'
import type { Metrics } from '@brokkr/runtime/metrics.ts'
import { uuid7 } from '../domain/uuid7.ts'
import type { Seal } from '../seal.ts'
import type { Database } from '../store/db.ts'
import * as idempotencyKeys from '../store/idempotency-keys.ts'
import type { Sql } from '../store/sql.ts'
import type { Answer } from './send-answer.ts'

export interface KeyedCall {
  /** Whose key it is: identity, method, path. The same key elsewhere is another key. */
  readonly scope: string
  readonly key: string
  readonly bodyHash: string
  /** The answer shows a secret: only the id of what was made is kept. */
  readonly issuesSecret: boolean
}
/** What the handler uses in the place of its own: one transaction, and a wake-up that waits for its commit. */
export interface InTransaction {
  readonly sql: Sql
  readonly wakeFeed: () => void
}
export interface Idempotency {
  run(call: KeyedCall, work: (deps: InTransaction) => Promise<Answer>): Promise<Answer>
}
export interface IdempotencyDeps {
  readonly database: Pick<Database, 'beginOuter'>
  readonly seal: Seal
  readonly metrics: Metrics
  readonly wakeFeed: () => void
}

export function createIdempotency(deps: IdempotencyDeps, options: { seconds: number }): Idempotency {
  const total = deps.metrics.counter('brokkr_idempotency_total', 'Calls with an Idempotency-Key by what became of them', ['result'])
  return {
    run: async (call, work) => {
      let isWoken = false
      const { result, answer } = await deps.database.beginOuter(async (sql): Promise<Outcome> => {
        const { locked } = await idempotencyKeys.tryLock(sql, call)
        // Read whoever holds the lock: it may be another replay, which keeps nobody from the stored answer.
        const kept = await idempotencyKeys.find(sql, call)
        if (kept !== null) return replay(deps.seal, call, kept)
        if (!locked) return { result: 'in_progress', answer: inProgress() }
        const made = await work({ sql, wakeFeed: () => void (isWoken = true) })
        if (made.status < 300) await keep(sql, deps.seal, { call, made, seconds: options.seconds })
        return { result: 'stored', answer: made }
      })
      total.inc({ result })
      if (isWoken) deps.wakeFeed()
      if (answer instanceof ApiError) throw answer
      return answer
    },
  }
}

interface Outcome {
  readonly result: 'stored' | 'replayed' | 'reused' | 'in_progress'
  readonly answer: Answer | ApiError
}

/** Kept as one sealed text: the answer, or the id of what a secret was shown for. */
type Kept = { readonly body: string } | { readonly id: string | null }

async function keep(sql: Sql, seal: Seal, { call, made, seconds }: { call: KeyedCall; made: Answer; seconds: number }): Promise<void> {
  const id = uuid7()
  const body = made.body.toString()
  const kept: Kept = call.issuesSecret ? { id: idIn(body) } : { body }
  await idempotencyKeys.put(sql, {
    scope: call.scope,
    key: call.key,
    id,
    body_hash: call.bodyHash,
    status: made.status,
    body_sealed: seal.seal(placeOf(id), JSON.stringify(kept)),
    seconds,
  })
}

const placeOf = (id: string) => ({ table: 'idempotency_keys', column: 'body_sealed', id })

function replay(seal: Seal, call: KeyedCall, row: { id: string; body_hash: string; status: number; body_sealed: Buffer }): Outcome {
  if (row.body_hash !== call.bodyHash) {
    const message = 'this Idempotency-Key was used with another body: a new call needs a new key'
    return { result: 'reused', answer: new ApiError('idempotency_key_reused', message) }
  }
  const kept = JSON.parse(seal.open(placeOf(row.id), row.body_sealed)) as Kept
  if ('body' in kept) return { result: 'replayed', answer: { status: row.status, headers: replayHeaders(kept.body), body: kept.body } }
  const message = 'the call was carried out and its secret shown once; rotate the key to get another'
  const details = kept.id === null ? {} : { id: kept.id }
  return { result: 'replayed', answer: new ApiError('secret_already_issued', message, { details }) }
}

const replayHeaders = (body: string): Record<string, string> => ({
  'idempotency-replayed': 'true',
  ...(body === '' ? {} : { 'content-type': 'application/json; charset=utf-8' }),
})

const inProgress = (): ApiError =>
  new ApiError('idempotency_in_progress', 'a call with this Idempotency-Key is still under way', { retryAfterSeconds: 1 })

/** The id of what was made: of the answer itself, or of the one thing in it. */
function idIn(body: string): string | null {
  const value = (body === '' ? null : JSON.parse(body)) as Record<string, unknown> | null
  const candidates = [value, ...Object.values(value ?? {})]
  const found = candidates.map((each) => (typeof each === 'object' && each !== null && 'id' in each ? each.id : null)).find(Boolean)
  return typeof found === 'string' ? found : null
}

const keyPattern = /^[\x21-\x7e]{1,255}$/

/** The key a call carries, or null. */
export function idempotencyKeyOf(method: string, headers: NodeJS.Dict<string | string[]>): string | null {
  const key = headers['idempotency-key']
  if (method !== 'POST' || key === undefined) return null
  if (typeof key === 'string' && keyPattern.test(key)) return key
  const message = 'has 1 to 255 visible ASCII characters'
  throw new ApiError('validation_failed', `Idempotency-Key ${message}`, { details: { errors: [{ path: 'Idempotency-Key', message }] } })
}

/** Two calls are the same when they ask for the same: query and body, after validation. */
export const bodyHashOf = (query: string, body: unknown): string => hash('sha256', `${query}\n${JSON.stringify(body) ?? ''}`)

export const scopeOf = (caller: { kind: string; id: string; isMasked: boolean }, method: string, path: string): string =>
  hash('sha256', `${caller.kind} ${caller.id}${caller.isMasked ? ' masked' : ''}\n${method} ${path}`)
