// Credentials that were found valid, kept for a moment: key hash → principal. It only ever grants what the database
// granted, forgets at once what is revoked, and holds nothing beyond its expiry.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { LRUCache } from 'lru-cache'
import type { Principal } from './handler.ts'

export type CredentialKind = Principal['kind'] | 'session'

export interface CredentialCache {
  get(hash: string): Principal | undefined
  /** A number that changes with every drop: a look-up that began before a revocation must not be kept after it. */
  readonly generation: number
  /** `untilMs`: an end of its own by the monotonic clock, earlier than the time to live. */
  set(hash: string, principal: Principal, generation: number, untilMs?: number): void
  /** Forgets every key and session of one identity (it was rotated, revoked, deleted or demoted), or one session. */
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
      const untilMs = Math.min(endMs, endOf(principal, deps.clock.monotonicMs() + options.ttlMs()))
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

function endOf(principal: Principal, ttlEndMs: number): number {
  return principal.endsAtMs === null ? ttlEndMs : Math.min(ttlEndMs, principal.endsAtMs)
}

/** What an entry falls with. */
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
