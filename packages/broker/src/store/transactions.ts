// Transactions on one connection of the pool. `begin` travels with the first statement, in one write and under one Sync: were it
// refused, PostgreSQL would skip the statement too; `commit` may travel with the last ones. A transaction that asks nothing never begins.
import type pg from 'pg'
import { knows, type Named, NamedQuery, type Result } from './named-query.ts'
import { oneTripOn } from './one-trip.ts'
import type { DatabaseObserver, PoolLine } from './pool-line.ts'
import { type Answers, type Asked, Ending, type NamedStatement, type Sql, type Tx } from './sql.ts'

export interface TransactionDeps {
  readonly line: PoolLine
  /** Runs one statement; `begins`: and begins a transaction with it. */
  readonly run: (on: pg.ClientBase, named: Named, begins?: boolean) => Promise<Result>
  readonly observe: DatabaseObserver | undefined
}
type Work<T> = (tx: Tx) => Promise<T | Ending<T>>

/** Commit at the end, rollback on a throw. */
export const inTransaction = <T>(deps: TransactionDeps, work: Work<T>): Promise<T> =>
  transact(deps, (client, opening) => work(flat(deps, client, () => opening.takesBegin())))

/** The same, and what it hands out may begin again: inner transactions are savepoints of this one, one after the other. */
export const inOuterTransaction = <T>(deps: TransactionDeps, work: (tx: Sql) => Promise<T>): Promise<T> =>
  transact(deps, async (client, opening) => {
    await opening.begin()
    return work(withSavepoints(deps, client))
  })

async function transact<T>(
  { line }: TransactionDeps,
  body: (client: pg.ClientBase, opening: Opening) => Promise<T | Ending<T>>,
): Promise<T> {
  const client = await line.connect()
  let broken: Error | undefined
  const opening = new Opening(client)
  try {
    if (!opening.canTravel) await opening.begin()
    const value = await body(client, opening)
    if (value instanceof Ending) return await value.leave(commit)
    if (opening.hasBegun) await new NamedQuery(commit).run(client)
    return value
  } catch (error) {
    // A connection that cannot even roll back is not given to anybody else.
    if (opening.hasBegun)
      broken = await client.query('rollback').then(
        () => undefined,
        (failed: Error) => failed,
      )
    throw error
  } finally {
    client.release(broken)
  }
}

const begin: NamedStatement = { name: 'begin', text: 'begin', values: [] }
const commit: NamedStatement = { name: 'commit', text: 'commit', values: [] }

/** Whether a transaction has begun on its connection. */
class Opening {
  readonly #client: pg.ClientBase
  hasBegun = false

  constructor(client: pg.ClientBase) {
    this.#client = client
  }

  /** A connection that has begun one before has the statement prepared. */
  get canTravel(): boolean {
    return knows(this.#client, begin.name)
  }

  async begin(): Promise<void> {
    if (this.hasBegun) return
    await new NamedQuery(begin).run(this.#client)
    this.hasBegun = true
  }

  /** True for the first statement of a transaction that has not begun. */
  takesBegin(): boolean {
    const takes = !this.hasBegun
    this.hasBegun = true
    return takes
  }
}

const hasBegun = () => false

function flat({ run, observe }: TransactionDeps, client: pg.ClientBase, begins = hasBegun): Tx {
  const last = <A extends Asked, T>(ask: (sql: Sql) => readonly [...A], told: (answers: Answers<A>) => T): Ending<T> => {
    const trip = oneTripOn(client, { begins, observe })
    const asked = Promise.all(ask(trip.sql))
    asked.catch(ignore)
    return new Ending(async (behind) => {
      const [, left] = await Promise.allSettled([asked, trip.leave(behind)])
      // Of a transaction in which a statement failed PostgreSQL makes a commit a rollback; the failure is what is told.
      const answers = await asked
      if (left.status === 'rejected') throw left.reason
      return told(answers)
    })
  }
  return {
    query: (named) => run(client, named, begins()),
    begin: () => Promise.reject(new Error('transactions do not nest')),
    last,
    together: (ask) => last(ask, (answers) => answers).leave(),
  }
}

function withSavepoints(deps: TransactionDeps, client: pg.ClientBase): Sql {
  let last: Promise<unknown> = Promise.resolve()
  return {
    query: (named) => deps.run(client, named),
    begin: (work) => {
      const inner = last.then(() => inSavepoint(client, () => work(flat(deps, client))))
      last = inner.catch(() => undefined)
      return inner
    },
  }
}

async function inSavepoint<T>(client: pg.ClientBase, work: () => Promise<T | Ending<T>>): Promise<T> {
  await client.query('savepoint inner_work')
  try {
    const value = await work()
    const kept = value instanceof Ending ? await value.leave() : value
    await client.query('release savepoint inner_work')
    return kept
  } catch (error) {
    await client.query('rollback to savepoint inner_work')
    throw error
  }
}

const ignore = (): void => undefined
