// Transactions on one connection of the pool, or on a connection of the caller. The first statement waits for `begin`: every query has its
// own Sync, so a statement that was pipelined behind a canceled `begin` would commit alone. `commit` can be pipelined with the last
// statements. A transaction without a statement sends nothing.
import { isConnectionUsable, TransactionRolledBack } from './errors.ts'
import { type ClientQueue, type DatabaseObserver, type PipelinedClient, pipelineQueries, sendStatement } from './pipelining.ts'
import { type NamedStatement, PendingCommit, type Sql, type StatementResult, type Tx } from './statements.ts'

export interface TransactionDeps {
  readonly queue: ClientQueue
  readonly observe: DatabaseObserver | undefined
}
type Work<T> = (tx: Tx) => Promise<T | PendingCommit<T>>

/** Commits when `work` resolves and rolls back when it throws. */
export const runTransaction = <T>(deps: TransactionDeps, work: Work<T>): Promise<T> =>
  withTransaction(deps, async (transaction) => {
    const value = await work(createTx(transaction).tx)
    if (value instanceof PendingCommit) return value.send(() => transaction.commit())
    await transaction.commit()
    return value
  })

/** The same, with a handle that can begin inner transactions: savepoints of this one, one after the other. */
export const runOuterTransaction = <T>(deps: TransactionDeps, work: (sql: Sql) => Promise<T>): Promise<T> =>
  withTransaction(deps, async (transaction) => {
    const value = await work(createOuterSql(transaction))
    await transaction.commit()
    return value
  })

async function withTransaction<T>({ queue, observe }: TransactionDeps, body: (transaction: OpenTransaction) => Promise<T>): Promise<T> {
  const client = await queue.connect()
  const transaction = new OpenTransaction(client, observe)
  try {
    return await body(transaction)
  } catch (error) {
    await transaction.rollback()
    throw error
  } finally {
    client.release(transaction.connectionError)
  }
}

class OpenTransaction {
  readonly client: PipelinedClient
  readonly #observe: DatabaseObserver | undefined
  /** null until the first statement. */
  #begin: Promise<void> | null = null
  #hasBegun = false
  #isEnded = false
  /** Set if the connection must not be used again. */
  connectionError: Error | undefined

  constructor(client: PipelinedClient, observe: DatabaseObserver | undefined) {
    this.client = client
    this.#observe = observe
  }

  /** True once the server has begun the transaction. */
  get hasBegun(): boolean {
    return this.#hasBegun
  }

  begin(): Promise<void> {
    this.#begin ??= this.client.query('begin').then(
      () => void (this.#hasBegun = true),
      (error: Error) => {
        this.connectionError = error
        throw error
      },
    )
    return this.#begin
  }

  /** Call after `begin`. Throws at once if the statement was not sent. */
  query(statement: NamedStatement): Promise<StatementResult> {
    if (this.#isEnded) throw new Error(`query ${statement.name} comes after the end of its transaction`)
    return sendStatement(this.client, statement, this.#observe)
  }

  /** For savepoints. Call after `begin`. */
  async execute(text: string): Promise<void> {
    if (this.#isEnded) throw new Error(`${text} comes after the end of its transaction`)
    await this.client.query(text)
  }

  /** Sends the commit at once. */
  async commit(): Promise<void> {
    this.#isEnded = true
    if (this.#begin === null) return
    const [{ command }] = await Promise.all([this.client.query('commit'), this.#begin])
    if (command !== 'COMMIT') throw new TransactionRolledBack()
  }

  async rollback(): Promise<void> {
    this.#isEnded = true
    if (this.#begin === null || this.connectionError !== undefined) return
    await this.client.query('rollback').catch((error: Error) => (this.connectionError = error))
  }
}

/** The handle of one transaction, or of one inner transaction: its statements are refused after `end`. */
function createTx(transaction: OpenTransaction): { readonly tx: Tx; readonly end: () => void } {
  let isEnded = false
  const send = (statement: NamedStatement) => {
    if (isEnded) throw new Error(`query ${statement.name} comes after the end of its transaction`)
    return transaction.query(statement)
  }
  const tx: Tx = {
    query: async (statement) => {
      if (!transaction.hasBegun) await transaction.begin()
      return send(statement)
    },
    begin: () => Promise.reject(new Error('transactions do not nest')),
    pipeline: async (buildQueries) => {
      if (!transaction.hasBegun) await transaction.begin()
      return transaction.client.inOneWrite(() => pipelineQueries(send, buildQueries))
    },
    commitWith: (buildQueries, mapResults) =>
      new PendingCommit(async (commit) => {
        if (!transaction.hasBegun) await transaction.begin()
        const [results, committed] = transaction.client.inOneWrite(() => [pipelineQueries(send, buildQueries), commit()] as const)
        committed.catch(ignore)
        // First: the error of a failed query explains why the commit failed.
        const values = await results
        await committed
        return mapResults(values)
      }),
  }
  return { tx, end: () => void (isEnded = true) }
}

function createOuterSql(transaction: OpenTransaction): Sql {
  let previous: Promise<unknown> = Promise.resolve()
  return {
    query: async (statement) => {
      if (!transaction.hasBegun) await transaction.begin()
      return transaction.query(statement)
    },
    begin: (work) => {
      const inner = previous.then(() => runInSavepoint(transaction, work))
      previous = inner.catch(ignore)
      return inner
    },
  }
}

async function runInSavepoint<T>(transaction: OpenTransaction, work: Work<T>): Promise<T> {
  await transaction.begin()
  // Not awaited, so that the first statement of the work is pipelined behind it. If it fails, all of the transaction fails.
  transaction.execute('savepoint inner_work').catch(ignore)
  const { tx, end } = createTx(transaction)
  const release = () => {
    end()
    return transaction.execute('release savepoint inner_work')
  }
  try {
    const value = await work(tx)
    if (value instanceof PendingCommit) return await value.send(release)
    await release()
    return value
  } catch (error) {
    end()
    // If it fails, the transaction cannot be committed; the first error says why.
    await transaction.execute('rollback to savepoint inner_work').catch(ignore)
    throw error
  }
}

export interface BatchStatement {
  readonly text: string
  readonly values: readonly (string | Buffer)[]
}
export interface SentBatch {
  /** Rows changed by each statement, for as many statements as have succeeded. */
  readonly counts: readonly number[]
  /** Resolves when the batch is committed. Rejects with the error of the first failed statement, or of the commit. */
  readonly committed: Promise<void>
}

/** Sends statements without names as one transaction. Needs a connection that has no other user. Waits for `begin`, as every transaction
 *  does. Statements and `commit` are sent in one write. A connection that could stay in a transaction is destroyed. */
export function sendBatch(client: PipelinedClient, statements: readonly BatchStatement[]): SentBatch {
  const counts: number[] = []
  const run = async ({ text, values }: BatchStatement): Promise<void> => {
    counts.push((await client.query({ text, values: [...values] })).rowCount ?? 0)
  }
  const commitBatch = async (): Promise<void> => {
    try {
      await client.query('begin')
      const [queries, commit] = client.inOneWrite(() => [statements.map(run), client.query('commit')] as const)
      await settleBatch(queries, commit)
    } catch (error) {
      await endTransaction(client, error)
      throw error
    }
  }
  return { counts, committed: commitBatch() }
}

async function settleBatch(queries: readonly Promise<unknown>[], commit: Promise<{ readonly command: string }>): Promise<void> {
  const [outcomes, committed] = await Promise.all([Promise.allSettled(queries), Promise.allSettled([commit])])
  for (const outcome of [...outcomes, ...committed]) if (outcome.status === 'rejected') throw outcome.reason
  if ((await commit).command !== 'COMMIT') throw new TransactionRolledBack()
}

/** A `commit` that was canceled before it ran leaves the session in a failed transaction, in which the next `begin` fails. */
async function endTransaction(client: PipelinedClient, error: unknown): Promise<void> {
  if (!isConnectionUsable(error)) return client.destroy()
  await client.query('rollback').catch(() => client.destroy())
}

const ignore = (): void => undefined
