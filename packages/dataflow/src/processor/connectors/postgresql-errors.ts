// What an error of PostgreSQL means for a flow. Pure. Texts of the server that can hold a row's values (invalid input, broken
// constraints, what a trigger raised) are left out: code, column and constraint say enough, and letters and logs stay free of data.
import { ConnectorError, type ErrorClass, type ErrorType } from './connector.ts'

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

/** `doing` fits behind "cannot". */
export function postgresError(thrown: unknown, doing: string): ConnectorError {
  if (thrown instanceof ConnectorError) return thrown
  const error = (typeof thrown === 'object' && thrown !== null ? thrown : {}) as PgError
  const code = typeof error.code === 'string' ? error.code : ''
  if (!isSqlState(code)) return connectionError(thrown, code, doing)
  const text = mayHoldValues(code) ? describe(error) : String(error.message)
  return new ConnectorError({ ...kindOf(code), recordIndex: copyLine(error) }, `cannot ${doing}: ${code} ${text}`)
}

export const sqlStateOf = (thrown: unknown): string => {
  const code = (thrown as { code?: unknown } | null | undefined)?.code
  return typeof code === 'string' && isSqlState(code) ? code : ''
}

/** The statement was refused and its transaction rolled back. A session that ends, or a server that fails, may say so behind a commit. */
export const isRefused = (thrown: unknown): boolean => {
  const code = sqlStateOf(thrown)
  return code !== '' && !['08', '57', '58', 'XX'].includes(code.slice(0, 2))
}

/** Node's own codes are longer words. */
const isSqlState = (code: string): boolean => /^[0-9A-Z]{5}$/.test(code) && /[0-9]/.test(code)

const transient = (type: ErrorType): Kind => ({ class: 'transient', type })
const config = (type: ErrorType): Kind => ({ class: 'config', type })
const record = (type: ErrorType): Kind => ({ class: 'record', type })

const byCode: Readonly<Record<string, Kind>> = {
  '21000': record('constraint_violation'),
  '25006': transient('transient'), // read only: a standby, or a server on its way to one
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

const kindOf = (code: string): Kind => byCode[code] ?? byClass[code.slice(0, 2)] ?? { class: 'unknown', type: 'unknown' }

const valueFree: ReadonlySet<string> = new Set(['08', '0A', '25', '28', '3D', '3F', '42', '53', '55', '57', '58'])
const mayHoldValues = (code: string): boolean => !valueFree.has(code.slice(0, 2))

function describe({ column, constraint, dataType, table }: PgError): string {
  const parts = Object.entries({ table, column, constraint, type: dataType }).filter(([, name]) => typeof name === 'string')
  return parts.length === 0 ? 'the record does not fit' : parts.map(([what, name]) => `${what} ${String(name)}`).join(', ')
}

/** COPY says in which line it failed: the record. */
function copyLine({ where }: PgError): number | undefined {
  const line = typeof where === 'string' ? /^COPY [^\n]*?, line (\d+)/.exec(where)?.[1] : undefined
  return line === undefined ? undefined : Number(line) - 1
}

const certificateCodes =
  /^(ERR_TLS_|ERR_SSL_|CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|EPROTO$|HOSTNAME_MISMATCH$|INVALID_CA$|INVALID_PURPOSE$)/

function connectionError(thrown: unknown, code: string, doing: string): ConnectorError {
  const message = thrown instanceof Error ? thrown.message : 'unknown error'
  const said = (kind: Kind) =>
    new ConnectorError(kind, `cannot ${doing}: ${code === '' ? message : `${code} ${message}`}`, { cause: thrown })
  if (certificateCodes.test(code) || /does not support SSL/.test(message)) return said(config('connection_error'))
  if (/timeout/i.test(message) || code === 'ETIMEDOUT') return said(transient('timeout'))
  if (code !== '' || /terminated|connection|ended|closed/i.test(message)) return said(transient('connection_error'))
  return said({ class: 'unknown', type: 'unknown' })
}
