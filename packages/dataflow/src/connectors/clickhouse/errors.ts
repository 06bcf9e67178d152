// Classifies failures of ClickHouse. Pure. Texts of the server about a record contain its values, so they are left out: code, name and
// column suffice, and dead letters and logs stay free of data.
import { Retryable, Terminal } from '@brokkr/runtime/errors.ts'
import { ConnectorError, type ErrorClass, type ErrorType } from '../connector.ts'

/** An answer that is not 200. */
export class ClickhouseRejection extends Error {
  override name = 'ClickhouseRejection'
  readonly status: number
  /** Of the server's exception; undefined if something else answered, such as a proxy. */
  readonly code: number | undefined
  readonly text: string
  readonly retryAfterMs: number | undefined
  constructor(answer: { status: number; code: number | undefined; text: string; retryAfterMs?: number | undefined }) {
    super(`HTTP ${answer.status}`)
    this.status = answer.status
    this.code = answer.code
    this.text = answer.text
    this.retryAfterMs = answer.retryAfterMs
  }
}

interface Kind {
  readonly class: ErrorClass
  readonly type: ErrorType
}
const kinds = (kind: Kind, codes: readonly number[]): [number, Kind][] => codes.map((code) => [code, kind])

const byCode: ReadonlyMap<number, Kind> = new Map([
  ...kinds(
    { class: 'record', type: 'invalid_data' },
    // Values that cannot be parsed, converted or stored in their column.
    [6, 25, 26, 27, 38, 41, 53, 69, 70, 72, 117, 130, 131, 190, 321, 349, 376, 407, 441, 467, 675, 676, 691],
  ),
  ...kinds({ class: 'record', type: 'constraint_violation' }, [469]),
  ...kinds({ class: 'config', type: 'auth_error' }, [164, 192, 193, 194, 497, 516]),
  ...kinds({ class: 'config', type: 'unknown' }, [10, 16, 36, 44, 46, 47, 48, 60, 62, 81, 115, 452]),
  ...kinds({ class: 'transient', type: 'timeout' }, [159, 160, 209]),
  ...kinds(
    { class: 'transient', type: 'transient' },
    // Overload, quota, memory, disk, parts, replicas, cancelled queries, cut requests.
    [33, 201, 202, 203, 210, 216, 225, 236, 241, 242, 243, 252, 279, 285, 305, 319, 394, 425, 439, 473, 499, 999],
  ),
])

/** `doing` completes "cannot …". */
export function toClickhouseError(thrown: unknown, doing: string): ConnectorError {
  if (thrown instanceof ConnectorError) return thrown
  if (thrown instanceof ClickhouseRejection) return rejectionError(thrown, doing)
  const message = thrown instanceof Error ? thrown.message : 'unknown error'
  const toError = (kind: Kind) => new ConnectorError(kind, `cannot ${doing}: ${message}`, { cause: thrown })
  if (thrown instanceof Terminal) return toError({ class: 'config', type: 'connection_error' })
  if (thrown instanceof Error && /^(Abort|Timeout)Error$/.test(thrown.name))
    return toError({ class: 'transient', type: 'context_canceled' })
  if (thrown instanceof Retryable) return toError({ class: 'transient', type: thrown.code === 'timeout' ? 'timeout' : 'connection_error' })
  return toError({ class: 'unknown', type: 'unknown' })
}

function rejectionError(rejection: ClickhouseRejection, doing: string): ConnectorError {
  const { code, text, retryAfterMs } = rejection
  if (code === undefined) return httpError(rejection, doing)
  const kind = byCode.get(code) ?? { class: 'unknown', type: 'unknown' }
  const name = /\(([A-Z][A-Z0-9_]{2,})\)/.exec(text.slice(-4000))?.[1] ?? 'error'
  const detail = kind.class === 'config' || kind.class === 'transient' ? `: ${summary(text)}` : describeColumn(text)
  const recordIndex = kind.class === 'record' ? rowIndex(text) : undefined
  return new ConnectorError({ ...kind, retryAfterMs, recordIndex }, `cannot ${doing}: ${code} ${name}${detail}`)
}

/** The answer of a proxy or load balancer. */
function httpError({ status, retryAfterMs }: ClickhouseRejection, doing: string): ConnectorError {
  const isAuth = status === 401 || status === 403
  const isTransient = status === 408 || status === 429 || status >= 500
  const kind: Kind = isAuth
    ? { class: 'config', type: 'auth_error' }
    : { class: isTransient ? 'transient' : 'config', type: isTransient ? 'transient' : 'unknown' }
  return new ConnectorError({ ...kind, retryAfterMs }, `cannot ${doing}: HTTP ${status} without an answer of ClickHouse`)
}

/** The first sentence, without the statement that the server may repeat. */
const summary = (text: string): string =>
  text
    .replace(/^Code: \d+\. DB::Exception: /, '')
    .split(/(?:: )?(?:In scope|While executing|while executing|In query)|\n|\. \([A-Z]/)[0]!
    .slice(0, 300)

function describeColumn(text: string): string {
  const column = /\(while reading the value of key ([^):]{1,200})\)/.exec(text)?.[1]
  return column === undefined ? '' : ` in column ${column}`
}

/** Rows count from 1. */
function rowIndex(text: string): number | undefined {
  const row = /\(at row (\d+)\)/.exec(text)?.[1]
  return row === undefined ? undefined : Number(row) - 1
}
