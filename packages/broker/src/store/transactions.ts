// Transactions on one connection of the pool. `begin` travels with the first statement, in one write and under one Sync: were it
// refused, PostgreSQL would skip the statement too. A transaction that asks nothing never begins.
import type pg from 'pg'
import { knows, type Named, NamedQuery, type Result } from './named-query.ts'
import type { PoolLine } from './pool-line.ts'
import type { Sql } from './sql.ts'

/** Runs one statement; `begins`: and begins a transaction with it. */
export type RunNamed = (on: pg.ClientBase, named: Named, begins?: boolean) => Promise<Result>
type Body<T> = (client: pg.ClientBase, tx: Opening) => Promise<T>

/** Commit at the end, rollback on a throw. */
export const inTransaction = <T>(line: PoolLine, run: RunNamed, work: (tx: Sql) => Promise<T>): Promise<T> =>
  transact(line, (client, opening) => work(flat(client, (on, named) => run(on, named, opening.takesBegin()))))

/** The same, and what it hands out may begin again: inner transactions are savepoints of this one, one after the other. */
export const inOuterTransaction = <T>(line: PoolLine, run: RunNamed, work: (tx: Sql) => Promise<T>): Promise<T> =>
  transact(line, async (client, opening) => {
    await opening.begin()
    return work(withSavepoints(client, run))
  })

async function transact<T>(line: PoolLine, body: Body<T>): Promise<T> {
  const client = await line.connect()
  // A connection that breaks also tells its query; without a listener the event would end the whole process.
  client.on('error', ignore)
  let broken: Error | undefined
  const opening = new Opening(client)
  try {
    if (!opening.canTravel) await opening.begin()
    const value = await body(client, opening)
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
    client.off('error', ignore)
    client.release(broken)
  }
}

const begin: Named = { name: 'begin', text: 'begin', values: [] }
const commit: Named = { name: 'commit', text: 'commit', values: [] }

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

const flat = (client: pg.ClientBase, run: RunNamed): Sql => ({
  query: (named) => run(client, named),
  begin: () => Promise.reject(new Error('transactions do not nest')),
})

function withSavepoints(client: pg.ClientBase, run: RunNamed): Sql {
  let last: Promise<unknown> = Promise.resolve()
  return {
    query: (named) => run(client, named),
    begin: (work) => {
      const inner = last.then(() => inSavepoint(client, () => work(flat(client, run))))
      last = inner.catch(() => undefined)
      return inner
    },
  }
}

async function inSavepoint<T>(client: pg.ClientBase, work: () => Promise<T>): Promise<T> {
  await client.query('savepoint inner_work')
  try {
    const value = await work()
    await client.query('release savepoint inner_work')
    return value
  } catch (error) {
    await client.query('rollback to savepoint inner_work')
    throw error
  }
}

const ignore = (): void => undefined
