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
