// Classifies errors of PostgreSQL. Pure. Server messages that may contain values of a row (invalid input, violated constraints, messages of
// triggers) are left out: code, column and constraint suffice, and dead letters and logs stay free of data.
import { TransactionRolledBack } from '@brokkr/postgres'
import { ConnectorError, type ErrorClass, type ErrorType } from '../connector.ts'

interface PgError {
  readonly code?: unknown
  readonly message?: unknown
  readonly column?: unknown
  readonly constraint?: unknown
  readonly dataType?: unknown
  readonly table?: unknown
  readonly where?: unknown
}
interface Kind {
  readonly class: ErrorClass
  readonly type: ErrorType
}

/** `doing` completes "cannot …". */
export function toPostgresError(thrown: unknown, doing: string): ConnectorError {
  if (thrown instanceof ConnectorError) return thrown
  const error = (typeof thrown === 'object' && thrown !== null ? thrown : {}) as PgError
  const code = typeof error.code === 'string' ? error.code : ''
  if (!isSqlState(code)) return connectionError(thrown, code, doing)
  const text = mayHoldValues(code) ? describe(error) : String(error.message)
  return new ConnectorError({ ...classify(code), recordIndex: copyLine(error) }, `cannot ${doing}: ${code} ${text}`)
}

export const sqlStateOf = (thrown: unknown): string => {
  const code = (thrown as { code?: unknown } | null | undefined)?.code
  return typeof code === 'string' && isSqlState(code) ? code : ''
}

/** The statement failed and its transaction was rolled back. A closed session or a failing server may report an error after a commit. */
export const isRefused = (thrown: unknown): boolean => {
  const code = sqlStateOf(thrown)
  return code !== '' && !['08', '57', '58', 'XX'].includes(code.slice(0, 2))
}

/** Node's codes are longer words than SQLSTATE. */
const isSqlState = (code: string): boolean => /^[0-9A-Z]{5}$/.test(code) && /[0-9]/.test(code)

const transient = (type: ErrorType): Kind => ({ class: 'transient', type })
const config = (type: ErrorType): Kind => ({ class: 'config', type })
const record = (type: ErrorType): Kind => ({ class: 'record', type })

const byCode: Readonly<Record<string, Kind>> = {
  '21000': record('constraint_violation'),
  '25006': transient('transient'), // read only: a standby, or a server on its way to one
  '25P02': transient('transient'), // an earlier statement of the transaction was canceled
  '42501': config('auth_error'),
  '42703': config('unknown'),
  '42804': record('invalid_data'),
  '42P01': config('unknown'),
  '42P10': config('unknown'), // no unique index for the conflict key
  '55000': config('unknown'), // wal_level, a slot that lost its WAL
  '55006': transient('transient'), // a slot that is in use
  '55P03': transient('transient'),
  '57014': transient('timeout'),
}
const byClass: Readonly<Record<string, Kind>> = {
  '08': transient('connection_error'),
  '22': record('invalid_data'),
  '23': record('constraint_violation'),
  '28': config('auth_error'),
  '3D': config('unknown'),
  '3F': config('unknown'),
  '40': transient('transient'),
  '53': transient('transient'),
  '57': transient('transient'),
  '58': transient('transient'),
}

const classify = (code: string): Kind => byCode[code] ?? byClass[code.slice(0, 2)] ?? { class: 'unknown', type: 'unknown' }

const valueFree: ReadonlySet<string> = new Set(['08', '0A', '25', '28', '3D', '3F', '42', '53', '55', '57', '58'])
const mayHoldValues = (code: string): boolean => !valueFree.has(code.slice(0, 2))

function describe({ column, constraint, dataType, table }: PgError): string {
  const parts = Object.entries({ table, column, constraint, type: dataType }).filter(([, name]) => typeof name === 'string')
  return parts.length === 0 ? 'the record does not fit' : parts.map(([what, name]) => `${what} ${String(name)}`).join(', ')
}

/** COPY names the line that failed, which gives the record. */
function copyLine({ where }: PgError): number | undefined {
  const line = typeof where === 'string' ? /^COPY [^\n]*?, line (\d+)/.exec(where)?.[1] : undefined
  return line === undefined ? undefined : Number(line) - 1
}

const certificateCodes =
  /^(ERR_TLS_|ERR_SSL_|CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|EPROTO$|HOSTNAME_MISMATCH$|INVALID_CA$|INVALID_PURPOSE$)/

function connectionError(thrown: unknown, code: string, doing: string): ConnectorError {
  const message = thrown instanceof Error ? thrown.message : 'unknown error'
  const toError = (kind: Kind) =>
    new ConnectorError(kind, `cannot ${doing}: ${code === '' ? message : `${code} ${message}`}`, { cause: thrown })
  if (certificateCodes.test(code) || /does not support SSL/.test(message)) return toError(config('connection_error'))
  if (thrown instanceof TransactionRolledBack) return toError(transient('transient'))
  if (/timeout/i.test(message) || code === 'ETIMEDOUT') return toError(transient('timeout'))
  if (code !== '' || /terminated|connection|ended|closed/i.test(message)) return toError(transient('connection_error'))
  return toError({ class: 'unknown', type: 'unknown' })
}
