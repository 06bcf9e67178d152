// Header → Principal: the only place that makes one. Unknown, wrong, revoked and expired keys look alike from outside: one
// statement, one comparison in constant time, one empty 401.
import { hash as digestOf, timingSafeEqual } from 'node:crypto'
import { ApiError } from '@brokkr/contract/error.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Metrics } from '@brokkr/runtime/metrics.ts'
import { type CredentialCache, createCredentialCache } from './credential-cache.ts'
import { type BucketOptions, createFailureBucket } from './failure-bucket.ts'
import type { Caller, Principal } from './handler.ts'
import { credentialOf, type HeaderCredential, holdsCredential } from './pak-header.ts'

export interface CredentialRow {
  readonly kind: Principal['kind']
  readonly id: string
  readonly name: string
  readonly pak_hash: string
  readonly readonly: boolean
  readonly scope: readonly string[] | null
  readonly expires_at: string | null
  readonly is_active: boolean
}

export interface AuthFailure extends Caller {
  readonly reason: 'missing' | 'malformed' | 'refused' | 'credential_in_url'
  /** Without the query. */
  readonly path: string
  readonly shortToken: string | null
  /** The address is over its share of failures and was told to wait. */
  readonly isLimited: boolean
}

export interface AuthDeps {
  readonly clock: Clock
  readonly metrics: Metrics
  readonly lookupCredential: (hash: string) => Promise<CredentialRow | null>
  /** False while the feed is too old to tell of revocations; the cache then grants nothing. */
  readonly trusted: () => boolean
  readonly onAuthFailure: (failure: AuthFailure) => void
  /** Told of every call whose key was accepted. */
  readonly onAccepted?: (principal: Principal) => void
}
export interface AuthOptions {
  readonly cacheTtlMs: () => number
  readonly cacheEntriesMax?: number
  readonly failures?: BucketOptions
}

export interface AuthRequest extends Caller {
  readonly path: string
  readonly query: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}
export interface Authenticator {
  /** Throws `unauthorized` or, when an address has failed too often, `rate_limited`. */
  authenticate(request: AuthRequest): Promise<Principal>
  /** Calls `onDead` when the caller's credential dies or changes, until it is released: for what is still arriving. */
  hold(principal: Principal, onDead: () => void): () => void
  /** A key died or its reach changed. */
  dropCredential(kind: Principal['kind'], id: string): void
  /** Everything is asked for anew: the feed was lost, or another history began. */
  dropAll(): void
}

export function createAuthenticator(deps: AuthDeps, options: AuthOptions): Authenticator {
  const cache = createCredentialCache(deps, {
    ttlMs: options.cacheTtlMs,
    ...(options.cacheEntriesMax === undefined ? {} : { entriesMax: options.cacheEntriesMax }),
  })
  const bucket = createFailureBucket(deps, options.failures)
  const holds = createHolds()
  const results = deps.metrics.counter('brokkr_auth_total', 'Credentials checked', ['result', 'kind'])
  const lookups = deps.metrics.counter('brokkr_auth_cache_total', 'Looks into the cache of credentials', ['result'])

  const fail = (request: AuthRequest, found: HeaderCredential, reason: AuthFailure['reason']): ApiError => {
    const waitSeconds = bucket.fail(request.clientAddress)
    results.inc({ result: waitSeconds > 0 ? 'limited' : 'refused', kind: 'none' })
    deps.onAuthFailure(describe(request, found, { reason, isLimited: waitSeconds > 0 }))
    return waitSeconds > 0 ? tooMany(waitSeconds) : new ApiError('unauthorized', 'a valid key is needed')
  }
  return {
    authenticate: async (request) => {
      const found = credentialOf(request.headers)
      const isInUrl = request.query !== '' && holdsCredential(request.query)
      const principal = found.is === 'pak' ? await resolve(deps, { cache, lookups }, found) : null
      if (principal === null) throw fail(request, found, isInUrl ? 'credential_in_url' : found.is === 'pak' ? 'refused' : found.is)
      if (isInUrl) deps.onAuthFailure(describe(request, found, { reason: 'credential_in_url', isLimited: false }))
      results.inc({ result: 'accepted', kind: principal.kind })
      deps.onAccepted?.(principal)
      return principal
    },
    hold: (principal, onDead) => holds.add(`${principal.kind} ${principal.id}`, onDead),
    dropCredential: (kind, id) => {
      cache.drop(kind, id)
      holds.call(`${kind} ${id}`)
    },
    dropAll: () => cache.clear(),
  }
}

/** Who wants to know when which credential dies. */
function createHolds() {
  const byKey = new Map<string, Set<() => void>>()
  return {
    add: (key: string, onDead: () => void) => {
      const held = byKey.get(key) ?? new Set()
      byKey.set(key, held.add(onDead))
      return () => {
        held.delete(onDead)
        if (held.size === 0 && byKey.get(key) === held) byKey.delete(key)
      }
    },
    call: (key: string) => {
      for (const onDead of byKey.get(key) ?? []) onDead()
    },
  }
}

interface Lookups {
  readonly cache: CredentialCache
  readonly lookups: { inc(labels: { result: string }): void }
}

async function resolve(deps: AuthDeps, { cache, lookups }: Lookups, found: HeaderCredential & { is: 'pak' }): Promise<Principal | null> {
  const hash = digestOf('sha256', found.pak.long)
  const cached = deps.trusted() ? cache.get(hash) : undefined
  lookups.inc({ result: cached === undefined ? 'miss' : 'hit' })
  const principal = cached ?? (await lookUp(deps, cache, hash))
  return principal !== null && found.generatorsOnly && principal.kind !== 'generator' ? null : principal
}

async function lookUp(deps: AuthDeps, cache: CredentialCache, hash: string): Promise<Principal | null> {
  const { generation } = cache
  const row = await deps.lookupCredential(hash)
  const isSame = sameHash(hash, row?.pak_hash ?? unknownHash)
  if (row === null || !isSame || hasExpired(row, deps.clock.now())) return null
  const principal = principalOf(row)
  if (deps.trusted()) cache.set(hash, principal, generation)
  return principal
}

/** No text has it, so that an unknown key costs the same comparison as a known one. */
const unknownHash = '0'.repeat(64)

function sameHash(hash: string, stored: string): boolean {
  const [left, right] = [Buffer.from(hash), Buffer.from(stored)]
  return left.length === right.length && timingSafeEqual(left, right)
}

const hasExpired = (row: CredentialRow, nowMs: number): boolean => row.expires_at !== null && !(Date.parse(row.expires_at) > nowMs)

function principalOf(row: CredentialRow): Principal {
  const { kind, id, name, readonly, scope } = row
  return { kind, id, name, readonly, scope, expiresAt: row.expires_at, isActive: row.is_active }
}

function describe(request: AuthRequest, found: HeaderCredential, what: Pick<AuthFailure, 'reason' | 'isLimited'>): AuthFailure {
  const { requestId, clientAddress, userAgent, path } = request
  return { requestId, clientAddress, userAgent, path, shortToken: found.is === 'pak' ? found.pak.short : null, ...what }
}

function tooMany(waitSeconds: number): ApiError {
  return new ApiError('rate_limited', 'too many failed sign-ins from this address; wait and use a valid key', {
    retryAfterSeconds: waitSeconds,
  })
}
