// Maps database errors to API errors, by SQLSTATE and by the codes of broken connections. Constraint names are part of the wire; texts
// of PostgreSQL are not.
import { ApiError, type ErrorCode } from '@brokkr/contract/errors.ts'
import { PoolExhausted, TransactionRolledBack } from '@brokkr/postgres'

/** Null if neither the error nor its causes come from the database. */
export function toDatabaseError(error: unknown): ApiError | null {
  for (const link of chain(error)) {
    const answer = fromSqlState(link) ?? fromConnection(link)
    if (answer !== null) return answer
  }
  return null
}

const causesMax = 8

function chain(error: unknown): Error[] {
  const links: Error[] = []
  for (let link = error; link instanceof Error && links.length < causesMax; link = link.cause) links.push(link)
  return links
}

function fromSqlState(error: Error): ApiError | null {
  // Node's codes such as `EPIPE` have five letters too; only PostgreSQL's errors have a severity.
  if (!('severity' in error) || !('code' in error) || typeof error.code !== 'string') return null
  const state = error.code
  const known = states.find(([pattern]) => pattern.test(state))
  if (known === undefined) return null
  const [, code, message] = known
  const constraint = 'constraint' in error && typeof error.constraint === 'string' ? error.constraint : null
  const isViolation = state.startsWith('23') && constraint !== null
  const details = isViolation ? { constraint } : state === 'BK005' ? { limit: 10_000 } : null
  return new ApiError(code, isViolation ? `${message} ${constraint}` : message, {
    cause: error,
    ...(details === null ? {} : { details }),
  })
}

const rolledBackText = 'the transaction was canceled and rolled back; retry'

const states: readonly (readonly [RegExp, ErrorCode, string])[] = [
  [/^23505$/, 'unique_violation', 'something with this name or pair exists already: constraint'],
  [/^23503$/, 'foreign_key_violation', 'something that is named does not exist: constraint'],
  [/^23502$/, 'not_null_violation', 'a value is missing: constraint'],
  [/^23/, 'check_violation', 'a value is outside what is allowed: constraint'],
  [/^22/, 'validation_failed', 'a value is too long, out of range or of the wrong form'],
  [/^BK005$/, 'limit_exceeded', 'an agent takes at most 10000 stacks'],
  [/^BK006$/, 'stack_not_found', 'no such stack'],
  [/^(57014|55P03|25P03)$/, 'timeout', 'the database did not respond in time; retry'],
  [/^40(001|P01)$/, 'overloaded', 'another change was made at the same time; retry'],
  [/^25P02$/, 'overloaded', rolledBackText],
  [/^(08|53|57P0[1-5]|25006)/, 'database_unavailable', 'the database is not available; retry'],
]

const networkCodes: ReadonlySet<unknown> = new Set(
  'ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ETIMEDOUT EHOSTUNREACH ENETUNREACH ENOTFOUND EAI_AGAIN'.split(' '),
)
/** Errors of the pool and the client that have no code. */
const poolTexts: ReadonlySet<string> = new Set([
  'timeout exceeded when trying to connect',
  'timeout expired',
  'Connection terminated',
  'Connection terminated unexpectedly',
  'Connection terminated due to connection timeout',
  'Client has encountered a connection error and is not queryable',
  'Client was closed and is not queryable',
  'Cannot use a pool after calling end on the pool',
])

function fromConnection(error: Error): ApiError | null {
  if (error instanceof PoolExhausted)
    return new ApiError('overloaded', 'the broker is overloaded; retry after the `Retry-After` time', { cause: error })
  if (error instanceof TransactionRolledBack) return new ApiError('overloaded', rolledBackText, { cause: error })
  const code: unknown = 'code' in error ? error.code : undefined
  // A missing Unix socket; any other missing file is a bug.
  const isMissingSocket = code === 'ENOENT' && 'syscall' in error && error.syscall === 'connect'
  if (!networkCodes.has(code) && !isMissingSocket && !poolTexts.has(error.message)) return null
  return new ApiError('database_unavailable', 'the database is not available; retry', { cause: error })
}
