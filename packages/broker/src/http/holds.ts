// Who wants to know when which credential dies: what is still arriving under it must end. Keys are those of credential-cache.ts.

export interface Holds {
  /** Calls `onDead` whenever one of the credentials dies, until released. */
  add(keys: readonly string[], onDead: () => void): () => void
  call(key: string): void
}

export function createHolds(): Holds {
  const byKey = new Map<string, Set<() => void>>()
  return {
    add: (keys, onDead) => {
      for (const key of keys) byKey.set(key, (byKey.get(key) ?? new Set()).add(onDead))
      return () => {
        for (const key of keys) {
          const held = byKey.get(key)
          held?.delete(onDead)
          if (held?.size === 0) byKey.delete(key)
        }
      }
    },
    call: (key) => {
      for (const onDead of byKey.get(key) ?? []) onDead()
    },
  }
}
