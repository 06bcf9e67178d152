// Authenticates requests: credential → Principal. Unknown, wrong, revoked and expired PAKs cannot be distinguished by a client: one
// statement, one constant-time comparison, one empty 401.
import { hash as digestOf, timingSafeEqual } from 'node:crypto'
import type { PakForm } from '@brokkr/contract/auth/pak.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import type { Caller, Principal } from '../server/handler.ts'
import { type Count, createDeferredCounter } from '../server/request-metrics.ts'
import {
  type CredentialCache,
  type CredentialKind,
  createCredentialCache,
  createRevocationListeners,
  credentialKeys,
} from './credential-cache.ts'
import { type BucketOptions, createFailureBucket } from './failure-bucket.ts'
import {
  containsCredential,
  createPakPatterns,
  type HeaderCredential,
  type PakParts,
  parseCredential,
  parseJoinToken,
  parseLinkToken,
} from './pak-header.ts'

export interface CredentialRow {
  readonly kind: Principal['kind']
  readonly id: string
  readonly name: string
  readonly pak_hash: string
  readonly readonly: boolean
  readonly scope: readonly string[] | null
  /** From the lookup on, by the database's clock. */
  readonly expires_in_ms: number | null
  readonly is_active: boolean
}
/** A console session; `pak_hash` is the hash of its token. */
export interface SessionRow extends CredentialRow {
  readonly session: string
  readonly idle_in_ms: number
}

export interface AuthFailure extends Caller {
  readonly reason: 'missing' | 'malformed' | 'refused' | 'credential_in_url'
  /** Without the query. */
  readonly path: string
  readonly shortToken: string | null
  /** The address exceeded its failure limit and got `rate_limited`. */
  readonly isLimited: boolean
}

export interface AuthDeps {
  readonly clock: Clock
  readonly metrics: Metrics
  readonly lookupCredential: (hash: string) => Promise<CredentialRow | null>
  readonly lookupSession?: (hash: string) => Promise<SessionRow | null>
  /** Lookup of a join token; if absent, no join token is accepted. */
  readonly lookupInvite?: (hash: string) => Promise<CredentialRow | null>
  /** Lookup of a sign-in link; counts a wrong try if only the short part is known. If absent, no link is accepted. */
  readonly lookupLink?: (token: { readonly short: string; readonly hash: string }) => Promise<CredentialRow | null>
  /** False while the change feed is too old to report revocations; then the cache is not used. */
  readonly trusted: () => boolean
  readonly onAuthFailure: (failure: AuthFailure) => void
  /** Called for every accepted request; `renews`: the request extends the console session. */
  readonly onAccepted?: (principal: Principal, renews: boolean) => void
}
export interface AuthOptions {
  readonly cacheTtlMs: () => number
  /** Cookie of console sessions; if absent, no cookie is accepted. */
  readonly cookieName?: string
  readonly cacheEntriesMax?: number
  readonly failures?: BucketOptions
  /** Form of this broker's PAKs. */
  readonly pakForm?: PakForm
}

export interface AuthRequest extends Caller {
  readonly path: string
  readonly query: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** False for streams: an open page must not keep its session alive. */
  readonly renews?: boolean
  /** Accepts a join token or the token of a sign-in link and nothing else. */
  readonly credential?: 'join' | 'link' | undefined
  /** Token of a sign-in link. */
  readonly linkToken?: string
}
export interface Authenticator {
  /** Throws `unauthorized`, or `rate_limited` if the address failed too often. */
  authenticate(request: AuthRequest): Promise<Principal>
  /** Error for a credential that turned out to be invalid after authentication: counted and recorded like any failure. */
  refuse(request: AuthRequest): ApiError
  /** Calls `onRevoked` when the caller's credential is revoked or changes, until released. */
  hold(principal: Principal, onRevoked: () => void): () => void
  /** Drops a revoked or changed credential from the cache. */
  dropCredential(kind: CredentialKind, id: string): void
  /** Drops all credentials from the cache: the feed was interrupted, or a new epoch started. */
  dropAll(): void
}

export function createAuthenticator(deps: AuthDeps, options: AuthOptions): Authenticator {
  const cache = createCredentialCache(deps, {
    ttlMs: options.cacheTtlMs,
    ...(options.cacheEntriesMax === undefined ? {} : { entriesMax: options.cacheEntriesMax }),
  })
  const bucket = createFailureBucket(deps, options.failures)
  const holds = createRevocationListeners()
  const results = deps.metrics.counter('brokkr_auth_total', 'Number of checked credentials by result and kind', ['result', 'kind'])
  const lookups = countLookups(deps.metrics)
  const acceptedOf = createDeferredCounter(deps.metrics, (labels: { result: string; kind: string }, times) => results.inc(labels, times))
  const accepted = {
    admin: acceptedOf({ result: 'accepted', kind: 'admin' }),
    agent: acceptedOf({ result: 'accepted', kind: 'agent' }),
    generator: acceptedOf({ result: 'accepted', kind: 'generator' }),
    invite: acceptedOf({ result: 'accepted', kind: 'invite' }),
    link: acceptedOf({ result: 'accepted', kind: 'link' }),
  }

  const fail = (request: AuthRequest, found: HeaderCredential, reason: AuthFailure['reason']): ApiError => {
    const waitSeconds = bucket.fail(request.clientAddress)
    results.inc({ result: waitSeconds > 0 ? 'limited' : 'refused', kind: 'none' })
    deps.onAuthFailure(describe(request, found, { reason, isLimited: waitSeconds > 0 }))
    return waitSeconds > 0 ? tooMany(waitSeconds) : new ApiError('unauthorized', 'a valid key is needed')
  }
  const patterns = createPakPatterns(options.pakForm)
  const read = ({ headers, credential, linkToken }: AuthRequest): HeaderCredential => {
    if (credential === 'join') return parseJoinToken(headers)
    if (credential === 'link') return parseLinkToken(linkToken ?? '')
    return parseCredential(headers, options.cookieName ?? null, patterns)
  }
  return {
    authenticate: async (request) => {
      const found = read(request)
      const isInUrl = request.query !== '' && containsCredential(request.query, patterns)
      const principal = isKnown(found) ? await resolve(deps, { cache, lookups }, found) : null
      if (principal === null) throw fail(request, found, isInUrl ? 'credential_in_url' : isKnown(found) ? 'refused' : found.is)
      if (isInUrl) deps.onAuthFailure(describe(request, found, { reason: 'credential_in_url', isLimited: false }))
      accepted[principal.kind].n += 1
      deps.onAccepted?.(principal, request.renews ?? true)
      return principal
    },
    refuse: (request) => fail(request, read(request), 'refused'),
    hold: (principal, onRevoked) => holds.add(credentialKeys(principal), onRevoked),
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
  const total = metrics.counter('brokkr_auth_cache_total', 'Number of credential cache lookups by result', ['result'])
  const of = createDeferredCounter(metrics, (labels: { result: string }, times) => total.inc(labels, times))
  return { hit: of({ result: 'hit' }), miss: of({ result: 'miss' }) }
}

type Known = Exclude<HeaderCredential, { readonly is: 'missing' | 'malformed' }>
const isKnown = (found: HeaderCredential): found is Known => found.is !== 'missing' && found.is !== 'malformed'

async function resolve(deps: AuthDeps, { cache, lookups }: Lookups, found: Known): Promise<Principal | null> {
  if (found.is === 'join') return lookUpOnce(deps, found.token, ({ hash }) => deps.lookupInvite?.(hash))
  if (found.is === 'link') return lookUpOnce(deps, found.token, (token) => deps.lookupLink?.(token))
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
  /** Cache key: a session token cannot match a PAK. */
  readonly key: string
}

async function lookUp(deps: AuthDeps, cache: CredentialCache, { is, hash, key }: Sought): Promise<Principal | null> {
  const { generation } = cache
  // Taken before the lookup, so that no entry lasts longer than the database allows.
  const askedAtMs = deps.clock.monotonicMs()
  const row: CredentialRow | SessionRow | null =
    is === 'pak' ? await deps.lookupCredential(hash) : ((await deps.lookupSession?.(hash)) ?? null)
  const isSame = sameHash(hash, row?.pak_hash ?? unknownHash)
  if (row === null || !isSame || (row.expires_in_ms ?? 1) <= 0) return null
  const principal = toPrincipal(row, askedAtMs)
  if (deps.trusted()) cache.set(key, principal, generation, isSession(row) ? askedAtMs + row.idle_in_ms : undefined)
  return principal
}

/** Join tokens and sign-in links are never cached: they are used rarely, and a revoked one must stop at once. */
async function lookUpOnce(
  deps: AuthDeps,
  { short, long }: PakParts,
  find: (token: { short: string; hash: string }) => Promise<CredentialRow | null> | undefined,
): Promise<Principal | null> {
  const hash = digestOf('sha256', long)
  const askedAtMs = deps.clock.monotonicMs()
  const row = (await find({ short, hash })) ?? null
  const isSame = sameHash(hash, row?.pak_hash ?? unknownHash)
  return row === null || !isSame || (row.expires_in_ms ?? 1) <= 0 ? null : toPrincipal(row, askedAtMs)
}

/** Matches no hash: an unknown PAK costs the same comparison as a known one. */
const unknownHash = '0'.repeat(64)

function sameHash(hash: string, stored: string): boolean {
  const [left, right] = [Buffer.from(hash), Buffer.from(stored)]
  return left.length === right.length && timingSafeEqual(left, right)
}

const isSession = (row: CredentialRow | SessionRow): row is SessionRow => 'session' in row

function toPrincipal(row: CredentialRow | SessionRow, askedAtMs: number): Principal {
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
    pakHash: isSession(row) || kind === 'invite' || kind === 'link' ? null : row.pak_hash,
  }
}

function describe(request: AuthRequest, found: HeaderCredential, what: Pick<AuthFailure, 'reason' | 'isLimited'>): AuthFailure {
  const { requestId, clientAddress, userAgent, path } = request
  return { requestId, clientAddress, userAgent, path, shortToken: findShortToken(found), ...what }
}

const findShortToken = (found: HeaderCredential): string | null =>
  found.is === 'pak' ? found.pak.short : found.is === 'join' || found.is === 'link' ? found.token.short : null

function tooMany(waitSeconds: number): ApiError {
  return new ApiError('rate_limited', 'too many failed sign-ins from this address; wait and use a valid key', {
    retryAfterSeconds: waitSeconds,
  })
}
