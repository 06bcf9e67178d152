// Who waits for a connection of the pool, and since when; and how long statements take, for whoever wants to know.
import type pg from 'pg'

export interface DatabaseObserver {
  query(name: string, ms: number): void
  /** How long a caller waited for a connection. */
  wait(ms: number): void
}
export class PoolEmpty extends Error {
  override readonly name = 'PoolEmpty'

  constructor(options?: { cause?: unknown }) {
    super('no connection of the pool came free in time', options)
  }
}
export interface PoolLine {
  connect(): Promise<pg.PoolClient>
  /** How long the one who waits longest has waited; 0: nobody waits. */
  oldestMs(): number
}

export function createPoolLine(pool: pg.Pool, observe: DatabaseObserver | undefined): PoolLine {
  const waiting = new Set<{ readonly sinceMs: number }>()
  return {
    connect: async () => {
      const place = { sinceMs: performance.now() }
      waiting.add(place)
      try {
        return await pool.connect()
      } catch (error) {
        // Every connection is in use: the database is there, and there is too much to do.
        throw pool.totalCount >= (pool.options.max ?? 0) && pool.waitingCount > 0 ? new PoolEmpty({ cause: error }) : error
      } finally {
        waiting.delete(place)
        observe?.wait(performance.now() - place.sinceMs)
      }
    },
    oldestMs: () => {
      // A set keeps the order in which they came.
      const [first] = waiting
      return first === undefined ? 0 : performance.now() - first.sinceMs
    },
  }
}

export async function timed<T>(observe: DatabaseObserver | undefined, name: string, work: () => Promise<T>): Promise<T> {
  const startedMs = performance.now()
  try {
    return await work()
  } finally {
    observe?.query(name, performance.now() - startedMs)
  }
}
