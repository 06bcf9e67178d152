// A failure of the database → the answer the catalogue has for it. Read from SQLSTATE and from the codes of broken
// connections; names of constraints are part of the wire, texts of PostgreSQL are not.
import { ApiError, type ErrorCode } from '@brokkr/contract/error.ts'
import { PoolEmpty } from '../store/pool-line.ts'

/** Null when the error, and whatever caused it, has nothing to do with the database. */
export function fromDatabase(error: unknown): ApiError | null {
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
  // Node's own codes (`EPIPE`) have five letters too; only PostgreSQL's errors carry a severity.
  if (!('severity' in error) || !('code' in error) || typeof error.code !== 'string') return null
  const state = error.code
  const known = states.find(([pattern]) => pattern.test(state))
  if (known === undefined) return null
  const [, code, message] = known
  const constraint = 'constraint' in error && typeof error.constraint === 'string' ? error.constraint : null
  const isViolation = state.startsWith('23') && constraint !== null
  return new ApiError(code, isViolation ? `${message} ${constraint}` : message, {
    cause: error,
    ...(isViolation ? { details: { constraint } } : {}),
  })
}

const states: readonly (readonly [RegExp, ErrorCode, string])[] = [
  [/^23505$/, 'unique_violation', 'something with this name or pair exists already: constraint'],
  [/^23503$/, 'foreign_key_violation', 'something that is named does not exist: constraint'],
  [/^23502$/, 'not_null_violation', 'a value is missing: constraint'],
  [/^23/, 'check_violation', 'a value is outside what is allowed: constraint'],
  [/^22/, 'validation_failed', 'a value is too long, out of range or of the wrong form'],
  [/^(57014|55P03|25P03)$/, 'timeout', 'the database did not answer in time; try again'],
  [/^40(001|P01)$/, 'overloaded', 'another change was made at the same time; try again'],
  [/^(08|53|57P0[1-5]|25006)/, 'database_unavailable', 'the database is not available; try again'],
]

const networkCodes: ReadonlySet<unknown> = new Set(
  'ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ETIMEDOUT EHOSTUNREACH ENETUNREACH ENOTFOUND EAI_AGAIN'.split(' '),
)
/** The pool and the client give these no code. */
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
  if (error instanceof PoolEmpty) return new ApiError('overloaded', 'the broker has more to do than it can; try again', { cause: error })
  const code: unknown = 'code' in error ? error.code : undefined
  // A Unix socket that is not there; any other missing file is a bug of ours.
  const isMissingSocket = code === 'ENOENT' && 'syscall' in error && error.syscall === 'connect'
  if (!networkCodes.has(code) && !isMissingSocket && !poolTexts.has(error.message)) return null
  return new ApiError('database_unavailable', 'the database is not available; try again', { cause: error })
}
