// Header → Principal: the only place that makes one. Unknown, wrong, revoked and expired keys look alike from outside: one
// statement, one comparison in constant time, one empty 401.
import { hash as digestOf, timingSafeEqual } from 'node:crypto'
import { ApiError } from '@brokkr/contract/error.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Metrics } from '@brokkr/runtime/metrics.ts'
import { type CredentialCache, type CredentialKind, createCredentialCache, credentialKeys } from './credential-cache.ts'
import { type BucketOptions, createFailureBucket } from './failure-bucket.ts'
import type { Caller, Principal } from './handler.ts'
import { createHolds } from './holds.ts'
import { credentialOf, type HeaderCredential, holdsCredential, joinTokenOf } from './pak-header.ts'
import { type Count, tellLater } from './tell-later.ts'

export interface CredentialRow {
  readonly kind: Principal['kind']
  readonly id: string
  readonly name: string
  readonly pak_hash: string
  readonly readonly: boolean
  readonly scope: readonly string[] | null
  /** From the look-up on, by the database's clock: ours may be wrong. */
  readonly expires_in_ms: number | null
  readonly is_active: boolean
}
/** A session's row: `pak_hash` is the hash of its token. */
export interface SessionRow extends CredentialRow {
  readonly session: string
  readonly idle_in_ms: number
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
  readonly lookupSession?: (hash: string) => Promise<SessionRow | null>
  /** Of a join token; left out: none opens anything. */
  readonly lookupInvite?: (hash: string) => Promise<CredentialRow | null>
  /** False while the feed is too old to tell of revocations; the cache then grants nothing. */
  readonly trusted: () => boolean
  readonly onAuthFailure: (failure: AuthFailure) => void
  /** Told of every call whose key was accepted; `renews`: it is a sign of life of the person behind a session. */
  readonly onAccepted?: (principal: Principal, renews: boolean) => void
}
export interface AuthOptions {
  readonly cacheTtlMs: () => number
  /** Of console sessions; left out: no cookie opens anything. */
  readonly cookieName?: string
  readonly cacheEntriesMax?: number
  readonly failures?: BucketOptions
}

export interface AuthRequest extends Caller {
  readonly path: string
  readonly query: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** False for streams: a page that was left open must not keep its session alive. */
  readonly renews?: boolean
  /** A join token is asked for and nothing else. */
  readonly credential?: 'join' | undefined
}
export interface Authenticator {
  /** Throws `unauthorized` or, when an address has failed too often, `rate_limited`. */
  authenticate(request: AuthRequest): Promise<Principal>
  /** What a caller is told whose credential was known, and turned out to open nothing any more: counted and told like any other. */
  refuse(request: AuthRequest): ApiError
  /** Calls `onDead` when the caller's credential dies or changes, until it is released: for what is still arriving. */
  hold(principal: Principal, onDead: () => void): () => void
  /** A key died or its reach changed. */
  dropCredential(kind: CredentialKind, id: string): void
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
  const lookups = countLookups(deps.metrics)
  const acceptedOf = tellLater(deps.metrics, (labels: { result: string; kind: string }, times) => results.inc(labels, times))
  const accepted = {
    admin: acceptedOf({ result: 'accepted', kind: 'admin' }),
    agent: acceptedOf({ result: 'accepted', kind: 'agent' }),
    generator: acceptedOf({ result: 'accepted', kind: 'generator' }),
    invite: acceptedOf({ result: 'accepted', kind: 'invite' }),
  }

  const fail = (request: AuthRequest, found: HeaderCredential, reason: AuthFailure['reason']): ApiError => {
    const waitSeconds = bucket.fail(request.clientAddress)
    results.inc({ result: waitSeconds > 0 ? 'limited' : 'refused', kind: 'none' })
    deps.onAuthFailure(describe(request, found, { reason, isLimited: waitSeconds > 0 }))
    return waitSeconds > 0 ? tooMany(waitSeconds) : new ApiError('unauthorized', 'a valid key is needed')
  }
  const read = ({ headers, credential }: AuthRequest): HeaderCredential =>
    credential === 'join' ? joinTokenOf(headers) : credentialOf(headers, options.cookieName ?? null)
  return {
    authenticate: async (request) => {
      const found = read(request)
      const isInUrl = request.query !== '' && holdsCredential(request.query)
      const principal = isKnown(found) ? await resolve(deps, { cache, lookups }, found) : null
      if (principal === null) throw fail(request, found, isInUrl ? 'credential_in_url' : isKnown(found) ? 'refused' : found.is)
      if (isInUrl) deps.onAuthFailure(describe(request, found, { reason: 'credential_in_url', isLimited: false }))
      accepted[principal.kind].n += 1
      deps.onAccepted?.(principal, request.renews ?? true)
      return principal
    },
    refuse: (request) => fail(request, read(request), 'refused'),
    hold: (principal, onDead) => holds.add(credentialKeys(principal), onDead),
    dropCredential: (kind, id) => {
      cache.drop(kind, id)
      holds.call(`${kind} ${id}`)
    },
    dropAll: () => cache.clear(),
  }
}

interface Lookups {
  readonly cache: CredentialCache
  readonly lookups: { readonly hit: Count; readonly miss: Count }
}

function countLookups(metrics: Metrics): Lookups['lookups'] {
  const total = metrics.counter('brokkr_auth_cache_total', 'Looks into the cache of credentials', ['result'])
  const of = tellLater(metrics, (labels: { result: string }, times) => total.inc(labels, times))
  return { hit: of({ result: 'hit' }), miss: of({ result: 'miss' }) }
}

type Known = Exclude<HeaderCredential, { readonly is: 'missing' | 'malformed' }>
const isKnown = (found: HeaderCredential): found is Known => found.is === 'pak' || found.is === 'session' || found.is === 'join'

async function resolve(deps: AuthDeps, { cache, lookups }: Lookups, found: Known): Promise<Principal | null> {
  if (found.is === 'join') return lookUpInvite(deps, found.token.long)
  const hash = digestOf('sha256', found.is === 'pak' ? found.pak.long : found.token)
  const key = found.is === 'pak' ? hash : `session ${hash}`
  const cached = deps.trusted() ? cache.get(key) : undefined
  lookups[cached === undefined ? 'miss' : 'hit'].n += 1
  const principal = cached ?? (await lookUp(deps, cache, { is: found.is, hash, key }))
  return principal !== null && found.is === 'pak' && found.generatorsOnly && principal.kind !== 'generator' ? null : principal
}

interface Sought {
  readonly is: 'pak' | 'session'
  readonly hash: string
  /** Under which it is cached: no session's token can pass for a key. */
  readonly key: string
}

async function lookUp(deps: AuthDeps, cache: CredentialCache, { is, hash, key }: Sought): Promise<Principal | null> {
  const { generation } = cache
  // Before the question, so that nothing lasts longer than the database said.
  const askedAtMs = deps.clock.monotonicMs()
  const row: CredentialRow | SessionRow | null =
    is === 'pak' ? await deps.lookupCredential(hash) : ((await deps.lookupSession?.(hash)) ?? null)
  const isSame = sameHash(hash, row?.pak_hash ?? unknownHash)
  if (row === null || !isSame || (row.expires_in_ms ?? 1) <= 0) return null
  const principal = principalOf(row, askedAtMs)
  if (deps.trusted()) cache.set(key, principal, generation, isSession(row) ? askedAtMs + row.idle_in_ms : undefined)
  return principal
}

/** Never cached: it is used a few times at most, and a revoked one must not open a second longer. */
async function lookUpInvite(deps: AuthDeps, long: string): Promise<Principal | null> {
  const hash = digestOf('sha256', long)
  const askedAtMs = deps.clock.monotonicMs()
  const row = (await deps.lookupInvite?.(hash)) ?? null
  const isSame = sameHash(hash, row?.pak_hash ?? unknownHash)
  return row === null || !isSame || (row.expires_in_ms ?? 1) <= 0 ? null : principalOf(row, askedAtMs)
}

/** No text has it, so that an unknown key costs the same comparison as a known one. */
const unknownHash = '0'.repeat(64)

function sameHash(hash: string, stored: string): boolean {
  const [left, right] = [Buffer.from(hash), Buffer.from(stored)]
  return left.length === right.length && timingSafeEqual(left, right)
}

const isSession = (row: CredentialRow | SessionRow): row is SessionRow => 'session' in row

function principalOf(row: CredentialRow | SessionRow, askedAtMs: number): Principal {
  const { kind, id, name, readonly, scope } = row
  return {
    kind,
    id,
    name,
    readonly,
    scope,
    endsAtMs: row.expires_in_ms === null ? null : askedAtMs + row.expires_in_ms,
    isActive: row.is_active,
    session: isSession(row) ? row.session : null,
  }
}

function describe(request: AuthRequest, found: HeaderCredential, what: Pick<AuthFailure, 'reason' | 'isLimited'>): AuthFailure {
  const { requestId, clientAddress, userAgent, path } = request
  return { requestId, clientAddress, userAgent, path, shortToken: shortOf(found), ...what }
}

const shortOf = (found: HeaderCredential): string | null =>
  found.is === 'pak' ? found.pak.short : found.is === 'join' ? found.token.short : null

function tooMany(waitSeconds: number): ApiError {
  return new ApiError('rate_limited', 'too many failed sign-ins from this address; wait and use a valid key', {
    retryAfterSeconds: waitSeconds,
  })
}
