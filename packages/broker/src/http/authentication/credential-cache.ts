// Caches valid credentials for a short time: PAK hash → principal. Contains only what the database granted; revoked credentials are
// dropped at once, and no entry outlives its credential.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { LRUCache } from 'lru-cache'
import type { Principal } from '../server/handler.ts'

export type CredentialKind = Principal['kind'] | 'session'

export interface CredentialCache {
  get(hash: string): Principal | undefined
  /** Changes with every drop: the result of a lookup that began before a revocation must not be cached after it. */
  readonly generation: number
  /** `untilMs`: expiry of the entry by the monotonic clock, if earlier than the time to live. */
  set(hash: string, principal: Principal, generation: number, untilMs?: number): void
  /** Drops every PAK and session of one identity (rotated, revoked, deleted or demoted), or one session. */
  drop(kind: CredentialKind, id: string): void
  clear(): void
  readonly size: number
}

interface Entry {
  readonly principal: Principal
  readonly untilMs: number
}

export function createCredentialCache(deps: { clock: Clock }, options: { ttlMs: () => number; entriesMax?: number }): CredentialCache {
  const hashesOf = new Map<string, Set<string>>()
  const entries = new LRUCache<string, Entry>({
    max: options.entriesMax ?? 10_000,
    dispose: (entry, hash) => forgetHash(hashesOf, entry.principal, hash),
  })
  let generation = 0
  return {
    get: (hash) => fresh(entries, hash, deps.clock.monotonicMs()),
    get generation() {
      return generation
    },
    set: (hash, principal, since, endMs = Number.POSITIVE_INFINITY) => {
      const untilMs = Math.min(endMs, computeEntryEnd(principal, deps.clock.monotonicMs() + options.ttlMs()))
      if (since !== generation || untilMs <= deps.clock.monotonicMs()) return
      entries.set(hash, { principal, untilMs })
      rememberHash(hashesOf, principal, hash)
    },
    drop: (kind, id) => {
      generation += 1
      for (const hash of hashesOf.get(`${kind} ${id}`) ?? []) entries.delete(hash)
    },
    clear: () => {
      generation += 1
      entries.clear()
    },
    get size() {
      return entries.size
    },
  }
}

function fresh(entries: LRUCache<string, Entry>, hash: string, nowMs: number): Principal | undefined {
  const entry = entries.get(hash)
  if (entry === undefined || entry.untilMs > nowMs) return entry?.principal
  entries.delete(hash)
  return undefined
}

function computeEntryEnd(principal: Principal, ttlEndMs: number): number {
  return principal.endsAtMs === null ? ttlEndMs : Math.min(ttlEndMs, principal.endsAtMs)
}

/** Credentials that an entry depends on. */
export const credentialKeys = ({ kind, id, session }: Principal): string[] =>
  session === null ? [`${kind} ${id}`] : [`${kind} ${id}`, `session ${session}`]

function rememberHash(hashesOf: Map<string, Set<string>>, principal: Principal, hash: string): void {
  for (const key of credentialKeys(principal)) {
    const hashes = hashesOf.get(key) ?? new Set()
    hashesOf.set(key, hashes.add(hash))
  }
}

function forgetHash(hashesOf: Map<string, Set<string>>, principal: Principal, hash: string): void {
  for (const key of credentialKeys(principal)) {
    const hashes = hashesOf.get(key)
    hashes?.delete(hash)
    if (hashes?.size === 0) hashesOf.delete(key)
  }
}

// Listeners by credential: requests in progress end when their credential is revoked. Keys are those of credential-cache.ts.

export interface RevocationListeners {
  /** Calls `onRevoked` when one of the credentials is revoked, until released. */
  add(keys: readonly string[], onRevoked: () => void): () => void
  call(key: string): void
}

export function createRevocationListeners(): RevocationListeners {
  const byKey = new Map<string, Set<() => void>>()
  return {
    add: (keys, onRevoked) => {
      for (const key of keys) byKey.set(key, (byKey.get(key) ?? new Set()).add(onRevoked))
      return () => {
        for (const key of keys) {
          const listeners = byKey.get(key)
          listeners?.delete(onRevoked)
          if (listeners?.size === 0) byKey.delete(key)
        }
      }
    },
    call: (key) => {
      for (const onRevoked of byKey.get(key) ?? []) onRevoked()
    },
  }
}
