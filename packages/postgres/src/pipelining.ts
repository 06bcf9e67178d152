// Query pipelining: queries are sent without waiting for the results of earlier ones. PostgreSQL runs them in order, and each ends with
// its own Sync, so one failure does not abort the others outside a transaction.
import { once } from 'node:events'
import { Socket } from 'node:net'
import pg from 'pg'
import { isConnectionUsable, isPreparationLost } from './errors.ts'
import {
  type NamedStatement,
  type Parameter,
  type Queries,
  type QueryResults,
  type Sql,
  type StatementResult,
  toParameters,
} from './statements.ts'

export interface DatabaseObserver {
  query(name: string, ms: number): void
  /** Time that a caller waited for a connection. */
  wait(ms: number): void
}

/** A connection in the driver's pipeline mode. It refuses COPY, cursors and other custom query classes. The connection owns its socket, so
 *  that it can write several queries at once. Over TLS the driver writes each query by itself. */
export class PipelinedClient extends pg.Client {
  readonly #socket: Socket

  constructor(config: pg.ClientConfig = {}) {
    const socket = new Socket()
    super({ ...config, pipeline: true, stream: () => socket })
    this.#socket = socket
  }

  /** Writes all queries that `send` sends at once. */
  inOneWrite<T>(send: () => T): T {
    this.#socket.cork()
    try {
      return send()
    } finally {
      this.#socket.uncork()
    }
  }

  /** Collects queries until the end of this turn of the event loop, and then writes them at once. */
  collectTurn(): void {
    this.#socket.cork()
    setImmediate(() => this.#socket.uncork())
  }

  /** Resolves when the socket has taken all bytes, or is closed. */
  async flush(): Promise<void> {
    if (!this.#socket.writableNeedDrain) return
    // Removes the listener of the event that did not come.
    const settled = new AbortController()
    await Promise.race(['drain', 'close'].map((event) => once(this.#socket, event, { signal: settled.signal }))).catch(ignore)
    settled.abort()
  }

  /** Closes the connection without waiting for queries in flight, which fail. `end` waits for them. */
  destroy(): void {
    this.#socket.destroy()
  }
}

/** Throws if a value cannot be converted. */
const toQuery = ({ name, text, values }: NamedStatement): Query => ({ name, text, values: toParameters(values) })

interface Query {
  readonly name: string
  readonly text: string
  readonly values: Parameter[]
}

/** Sends one statement. Throws at once, before anything is sent, if a value cannot be converted. */
export const sendStatement = (client: pg.ClientBase, statement: NamedStatement, observe?: DatabaseObserver): Promise<StatementResult> =>
  sendQuery(client, toQuery(statement), observe)

async function sendQuery(client: pg.ClientBase, query: Query, observe: DatabaseObserver | undefined): Promise<StatementResult> {
  const startedMs = observe === undefined ? 0 : performance.now()
  try {
    const { rows, rowCount } = await client.query(query)
    return { rows, rowCount: rowCount ?? 0 }
  } catch (error) {
    // The driver creates errors where bytes arrive; the stack of the caller is more useful.
    if (error instanceof Error) Error.captureStackTrace(error, sendQuery)
    throw error
  } finally {
    observe?.query(query.name, performance.now() - startedMs)
  }
}

/** A connection outside the pool as a `Sql`. Its statements run in the order in which they are sent. */
export function toSql(client: pg.ClientBase): Sql {
  return {
    query: async (statement) => sendStatement(client, statement),
    begin: () => Promise.reject(new Error('transactions need a connection of the pool')),
  }
}

/** Sends the queries that `buildQueries` creates and returns their results. Throws if one of them could not be sent. A query that is created
 *  later, for example from a result, is rejected: it would run after the end of the transaction if the commit is pipelined too. */
export function pipelineQueries<A extends Queries>(
  query: Sql['query'],
  buildQueries: (sql: Sql) => readonly [...A],
): Promise<QueryResults<A>> {
  let isBuilt = false
  let refusal: { readonly error: unknown } | undefined
  const sql: Sql = {
    query: async (statement) => {
      if (isBuilt) throw new Error(`query ${statement.name} comes too late: create all queries of a pipeline before the first result`)
      try {
        // Not awaited: only what `query` throws at once means that nothing was sent.
        // oxlint-disable-next-line typescript/return-await
        return query(statement)
      } catch (error) {
        refusal ??= { error }
        throw error
      }
    },
    begin: () => Promise.reject(new Error('transactions do not nest')),
  }
  const results = Promise.all(buildQueries(sql)) as Promise<QueryResults<A>>
  isBuilt = true
  if (refusal === undefined) return results
  results.catch(ignore)
  throw refusal.error
}

export type PooledClient = PipelinedClient & { release(error?: Error): void }

/** Connections of the pool, each for one user at a time. */
export interface ClientQueue {
  connect(): Promise<PooledClient>
  /** Callers that wait for a connection. */
  readonly waiting: number
}

/** Queries in flight on one shared client. More of them use another client, so that one slow query delays few others. */
export const inFlightMax = 16

interface SharedClient {
  readonly connecting: Promise<PooledClient>
  isConnected: boolean
  inFlight: number
  /** Whether queries of this turn of the event loop are being collected. */
  isCollecting: boolean
  failure: Error | undefined
}

/** Runs look-ups on few clients of the pool, several on one client at a time. A client returns to the pool as soon as it has no query in
 *  flight, and takes no new query while other callers wait for a connection. */
export class SharedClients {
  readonly #queue: ClientQueue
  readonly #observe: DatabaseObserver | undefined
  readonly #clients: SharedClient[] = []

  constructor(queue: ClientQueue, observe: DatabaseObserver | undefined) {
    this.#queue = queue
    this.#observe = observe
  }

  async query(statement: NamedStatement): Promise<StatementResult> {
    const query = toQuery(statement)
    try {
      return await this.#runShared(query)
    } catch (error) {
      if (!isPreparationLost(error)) throw error
      // It did not run. On a client of its own no other query can take its prepared statement away.
      return runAlone(this.#queue, statement, this.#observe)
    }
  }

  async #runShared(query: Query): Promise<StatementResult> {
    const shared = this.#acquire()
    try {
      const client = await shared.connecting
      shared.isConnected = true
      collectTurn(shared, client)
      return await sendQuery(client, query, this.#observe)
    } catch (error) {
      if (!isConnectionUsable(error)) shared.failure ??= error as Error
      throw error
    } finally {
      this.#release(shared)
    }
  }

  #acquire(): SharedClient {
    const hasRoom = ({ failure, inFlight, isConnected }: SharedClient) =>
      failure === undefined && inFlight < inFlightMax && (!isConnected || this.#queue.waiting === 0)
    let shared = this.#clients.find(hasRoom)
    if (shared === undefined) {
      shared = { connecting: this.#queue.connect(), isConnected: false, inFlight: 0, isCollecting: false, failure: undefined }
      this.#clients.push(shared)
    }
    shared.inFlight += 1
    return shared
  }

  #release(shared: SharedClient): void {
    shared.inFlight -= 1
    if (shared.inFlight > 0) return
    this.#clients.splice(this.#clients.indexOf(shared), 1)
    shared.connecting.then((client) => client.release(shared.failure), ignore)
  }
}

function collectTurn(shared: SharedClient, client: PipelinedClient): void {
  if (shared.isCollecting) return
  shared.isCollecting = true
  client.collectTurn()
  setImmediate(() => (shared.isCollecting = false))
}

/** Runs one statement on a connection of its own. */
export async function runAlone(
  queue: ClientQueue,
  statement: NamedStatement,
  observe: DatabaseObserver | undefined,
): Promise<StatementResult> {
  const query = toQuery(statement)
  const client = await queue.connect()
  let failure: Error | undefined
  try {
    return await sendQuery(client, query, observe)
  } catch (error) {
    failure = isConnectionUsable(error) ? undefined : (error as Error)
    throw error
  } finally {
    client.release(failure)
  }
}

const ignore = (): void => undefined
