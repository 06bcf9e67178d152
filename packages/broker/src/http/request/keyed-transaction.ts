// The transaction of an action with an Idempotency-Key. It begins with the action's first statement, so that parsing, workers and name
// lookups before it hold no connection. It commits after the response is stored in it.
import type { Database, Sql } from '@brokkr/postgres'

export interface KeyedTransaction {
  /** For the action; nested transactions become savepoints. */
  readonly sql: Sql
  /** Runs `store` as the last statements, then commits. */
  commit(store: (sql: Sql) => Promise<void>): Promise<void>
  rollback(): Promise<void>
}

/** `onBegin` runs first in the transaction; if it throws, the statement that began the transaction fails with that error. */
export function createKeyedTransaction(database: Pick<Database, 'beginOuter'>, onBegin: (sql: Sql) => Promise<void>): KeyedTransaction {
  const ending = Promise.withResolvers<void>()
  ending.promise.catch(ignore)
  let started: { readonly begun: Promise<Sql>; readonly ended: Promise<void> } | null = null
  const start = () => {
    const begun = Promise.withResolvers<Sql>()
    begun.promise.catch(ignore)
    const ended = database.beginOuter(async (sql) => {
      await onBegin(sql)
      begun.resolve(sql)
      await ending.promise
    })
    // Until the transaction has begun, the caller waits for `begun`; a failed begin or check must reach it.
    ended.catch(begun.reject)
    return { begun: begun.promise, ended }
  }
  const begin = () => (started ??= start())
  return {
    sql: {
      query: async (named) => (await begin().begun).query(named),
      begin: async (work) => (await begin().begun).begin(work),
    },
    commit: async (store) => {
      const { begun, ended } = begin()
      await store(await begun)
      ending.resolve()
      await ended
    },
    rollback: async () => {
      ending.reject(new RolledBack())
      await started?.ended.catch(ignore)
    },
  }
}

class RolledBack extends Error {
  override readonly name = 'RolledBack'
}

const ignore = (): void => undefined
