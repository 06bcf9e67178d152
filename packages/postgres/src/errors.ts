// Errors of the pool and of transactions, and questions about the errors of the driver.

/** Every connection of the pool stayed in use for the whole connection timeout. The database itself is reachable. */
export class PoolExhausted extends Error {
  override readonly name = 'PoolExhausted'

  constructor(options?: { cause?: unknown }) {
    super('every connection of the pool is in use; none was released before the timeout', options)
  }
}

/** PostgreSQL answered `commit` with a rollback because an earlier statement of the transaction had failed. */
export class TransactionRolledBack extends Error {
  override readonly name = 'TransactionRolledBack'

  constructor() {
    super('commit failed: PostgreSQL rolled the transaction back because one of its statements had failed')
  }
}

/** True for an error that PostgreSQL sent. */
const isServerError = (error: unknown): error is Error & { readonly code: unknown; readonly severity: unknown } =>
  error instanceof Error && 'severity' in error && 'code' in error

/** SQLSTATEs with which PostgreSQL ends a session: shutdown, dropped database, timeouts of idle sessions and of transactions. The severity
 *  alone does not tell, because its text follows the language of the server. */
const sessionEndCodes: ReadonlySet<unknown> = new Set(['57P01', '57P02', '57P03', '57P04', '57P05', '25P03', '25P04'])

/** False if the session has ended or the error does not come from PostgreSQL: then the connection must not be used again. */
export const isConnectionUsable = (error: unknown): boolean =>
  isServerError(error) && !sessionEndCodes.has(error.code) && error.severity !== 'FATAL' && error.severity !== 'PANIC'

/** True if the query did not run because its prepared statement does not exist, or was prepared twice. Both happen to queries that were
 *  pipelined behind the first use of a name when that first use could not be parsed. */
export const isPreparationLost = (error: unknown): boolean => isServerError(error) && (error.code === '26000' || error.code === '42P05')
