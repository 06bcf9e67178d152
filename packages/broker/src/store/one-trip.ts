// Statements that leave a connection in one write and are carried out in the order given. Each fails by itself.
import type pg from 'pg'
import { knows, type Named, NamedQuery, type Result, withOwnStack } from './named-query.ts'
import { type DatabaseObserver, timed } from './pool-line.ts'
import type { Sql } from './sql.ts'

export interface OneTrip {
  /** What is asked of it waits until `leave`; whatever comes later is refused. */
  readonly sql: Sql
  /** Sends them, and this one behind them. Kept once all are answered, however they ended; broken by the one behind alone. */
  readonly leave: (behind?: Named) => Promise<void>
}
interface TripOptions {
  /** Whether the statement that asks begins a transaction on its way. */
  readonly begins?: () => boolean
  readonly observe?: DatabaseObserver | undefined
}

export function oneTripOn(client: pg.ClientBase, { begins, observe }: TripOptions = {}): OneTrip {
  const queries: NamedQuery[] = []
  let hasLeft = false
  const query = async (named: Named): Promise<Result> => {
    if (hasLeft) throw new Error(`${named.name} comes too late: what travels together is asked for at once, without waiting for any of it`)
    const sent = new NamedQuery(named, begins?.())
    queries.push(sent)
    try {
      return await timed(observe, named.name, () => sent.result)
    } catch (error) {
      throw withOwnStack(error)
    }
  }
  return {
    sql: { query, begin: () => Promise.reject(new Error('no transactions on a shared connection')) },
    leave: async (behind) => {
      hasLeft = true
      const last = behind === undefined ? undefined : new NamedQuery(behind)
      const all = last === undefined ? queries : [...queries, last]
      const [first, ...others] = all
      if (all.every(({ name }) => knows(client, name))) first?.run(client, others).catch(ignore)
      else void inTurn(client, all)
      await Promise.allSettled(all.map(({ result }) => result))
      await last?.result
    },
  }
}

/** What a connection has not prepared yet goes alone. Never rejects: each of them tells its own caller. */
async function inTurn(client: pg.ClientBase, queries: readonly NamedQuery[]): Promise<void> {
  for (const query of queries) await query.run(client).catch(ignore)
}

const ignore = (): void => undefined
