// Idempotency-Key: a repeated request with the key gets the stored response, byte for byte. Actions that only use the database store the
// response in the transaction of their effect. Actions that call the network first commit an in-progress row with a lease, because no
// transaction waits for the network; after the lease the key may run again.
import { hash } from 'node:crypto'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Database, Sql } from '@brokkr/postgres'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import type { BrokerDeps } from '../../deps.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import type { Seal } from '../../seal.ts'
import type { HttpResponse } from '../response/send-response.ts'
import { inProgress, type Outcome, sealResponse, toReplayedResponse } from '../response/stored-response.ts'
import * as idempotencyKeys from '../store/idempotency-keys.ts'
import { createKeyedTransaction } from './keyed-transaction.ts'

export interface KeyedCall {
  /** Caller, method and path: the same key in another scope is another key. */
  readonly scope: string
  readonly key: string
  readonly bodyHash: string
  /** The response contains a secret: only the id of the created resource is stored. */
  readonly issuesSecret: boolean
  /** The action calls the network, so it runs outside a transaction, under a lease. */
  readonly callsNetwork: boolean
}
/** Effects of actions outside the database. */
type Effects = Pick<BrokerDeps, 'wakeFeed' | 'dropCredential' | 'subscriptionCache'>
/** Replaces the dependencies of the handler: one transaction, and effects that wait for its commit. */
export interface InTransaction extends Effects {
  readonly sql: Sql
}
export interface Idempotency {
  /** `work` gets null if it must use its own dependencies. */
  run(call: KeyedCall, work: (deps: InTransaction | null) => Promise<HttpResponse>): Promise<HttpResponse>
}
export interface IdempotencyDeps extends Effects {
  readonly database: Pick<Database, 'beginOuter' | 'query' | 'begin'>
  readonly seal: Seal
  readonly metrics: Metrics
}
export interface IdempotencyOptions {
  readonly seconds: number
  /** Must exceed the time limit of a request. */
  readonly leaseSeconds: number
}
type Work = Parameters<Idempotency['run']>[1]

export function createIdempotency(deps: IdempotencyDeps, options: IdempotencyOptions): Idempotency {
  const total = deps.metrics.counter('brokkr_idempotency_total', 'Number of requests with an Idempotency-Key by result', ['result'])
  return {
    run: async (call, work) => {
      const { result, answer } = await (call.callsNetwork ? runUnderLease : runInTransaction)(deps, options, { call, work })
      total.inc({ result })
      if (answer instanceof ApiError) throw answer
      return answer
    },
  }
}

interface KeyedRun {
  readonly call: KeyedCall
  readonly work: Work
}

async function runInTransaction(deps: IdempotencyDeps, { seconds }: IdempotencyOptions, { call, work }: KeyedRun): Promise<Outcome> {
  const stored = await idempotencyKeys.find(deps.database, call)
  if (stored !== null) return toReplayedResponse(deps.seal, call, stored)
  const transaction = createKeyedTransaction(deps.database, (sql) => requireFree(deps.seal, sql, call))
  const { effects, release } = holdEffects(deps)
  try {
    const answer = await work({ sql: transaction.sql, ...effects })
    await transaction.commit(async (sql) => {
      if (answer.status >= 300) return
      const row = await sealResponse(deps.seal, call, answer, uuid7())
      await idempotencyKeys.put(sql, { scope: call.scope, key: call.key, body_hash: call.bodyHash, seconds, ...row })
    })
    release()
    return { result: 'stored', answer }
  } catch (error) {
    await transaction.rollback()
    if (error instanceof KeyTaken) return error.outcome
    throw error
  }
}

/** If a cache is dropped before the commit, it may be filled again with the replaced row. */
function holdEffects({ wakeFeed, dropCredential, subscriptionCache }: Effects): { effects: Effects; release: () => void } {
  const held: (() => void)[] = []
  const effects: Effects = {
    wakeFeed: (...args) => void held.push(() => wakeFeed(...args)),
    dropCredential: (...args) => void held.push(() => dropCredential(...args)),
    subscriptionCache: { enabled: (sql) => subscriptionCache.enabled(sql), drop: () => void held.push(() => subscriptionCache.drop()) },
  }
  const release = () => {
    for (const act of held) act()
  }
  return { effects, release }
}

/** Another request used the key before the transaction began. */
class KeyTaken extends Error {
  override readonly name = 'KeyTaken'
  readonly outcome: Outcome

  constructor(outcome: Outcome) {
    super('the Idempotency-Key is taken')
    this.outcome = outcome
  }
}

async function requireFree(seal: Seal, sql: Sql, call: KeyedCall): Promise<void> {
  const { locked } = await idempotencyKeys.tryLock(sql, call)
  const stored = await idempotencyKeys.find(sql, call)
  if (stored !== null) throw new KeyTaken(toReplayedResponse(seal, call, stored))
  if (!locked) throw new KeyTaken(inProgress())
}

async function runUnderLease(
  deps: IdempotencyDeps,
  { seconds, leaseSeconds }: IdempotencyOptions,
  { call, work }: KeyedRun,
): Promise<Outcome> {
  const { database, seal } = deps
  const id = uuid7()
  const claim = { scope: call.scope, key: call.key, id, body_hash: call.bodyHash, seconds, lease_seconds: leaseSeconds }
  if ((await idempotencyKeys.claim(database, claim)) === 0) {
    const stored = await idempotencyKeys.find(database, call)
    // Null: the request that held the key failed meanwhile; the next attempt may run.
    return stored === null ? inProgress() : toReplayedResponse(seal, call, stored)
  }
  try {
    const answer = await work(null)
    if (answer.status >= 300) await idempotencyKeys.release(database, { id })
    else await idempotencyKeys.complete(database, { ...(await sealResponse(seal, call, answer, id)), seconds })
    return { result: 'stored', answer }
  } catch (error) {
    await idempotencyKeys.release(database, { id })
    throw error
  }
}

const keyPattern = /^[\x21-\x7e]{1,255}$/

/** The key of a request, or null. */
export function readIdempotencyKey(method: string, headers: NodeJS.Dict<string | string[]>): string | null {
  const key = headers['idempotency-key']
  if (method !== 'POST' || key === undefined) return null
  if (typeof key === 'string' && keyPattern.test(key)) return key
  const message = 'has 1 to 255 visible ASCII characters'
  throw new ApiError('validation_failed', `Idempotency-Key ${message}`, { details: { errors: [{ path: 'Idempotency-Key', message }] } })
}

export const toKeyScope = (caller: { kind: string; id: string; isMasked: boolean }, method: string, path: string): string =>
  hash('sha256', `${caller.kind} ${caller.id}${caller.isMasked ? ' masked' : ''}\n${method} ${path}`)
