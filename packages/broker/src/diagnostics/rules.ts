// State machine of diagnostic requests as one total table, and the checks of requests and results. Pure.
import { ApiError } from '@brokkr/contract/errors.ts'

export type DiagnosticStatus = 'pending' | 'claimed' | 'completed' | 'expired' | 'failed'
export type DiagnosticInput = 'claim' | 'complete' | 'expire'

/** `refuse` changes nothing. A claimed request whose time is over failed: its agent never submitted a result. */
export const nextDiagnosticStatus = {
  pending: { claim: 'claimed', complete: 'refuse', expire: 'expired' },
  claimed: { claim: 'refuse', complete: 'completed', expire: 'failed' },
  completed: { claim: 'refuse', complete: 'refuse', expire: 'refuse' },
  expired: { claim: 'refuse', complete: 'refuse', expire: 'refuse' },
  failed: { claim: 'refuse', complete: 'refuse', expire: 'refuse' },
} as const satisfies Record<DiagnosticStatus, Record<DiagnosticInput, DiagnosticStatus | 'refuse'>>

export const diagnosticStatuses = Object.keys(nextDiagnosticStatus) as DiagnosticStatus[]

/** SQL list of the statuses in which an input is accepted. */
export const acceptingStatuses = (input: DiagnosticInput): string =>
  diagnosticStatuses
    .filter((status) => nextDiagnosticStatus[status][input] !== 'refuse')
    .map((status) => `'${status}'`)
    .join(', ')

const retentionMinutesMax = 1440
const requestedByCharsMax = 255

export function checkDiagnosticRequest({ retentionMinutes, requestedBy }: { retentionMinutes: number; requestedBy: string | null }): void {
  if (retentionMinutes < 1 || retentionMinutes > retentionMinutesMax)
    throw invalidRequest('retention_minutes', `must be between 1 and ${retentionMinutesMax}`)
  if (requestedBy !== null && requestedBy.length > requestedByCharsMax)
    throw invalidRequest('requested_by', `must have at most ${requestedByCharsMax} characters`)
}

const invalidRequest = (path: string, message: string): ApiError =>
  new ApiError('invalid_diagnostic_request', `${path} ${message}`, { details: { errors: [{ path, message }] } })

export interface DiagnosticParts {
  readonly pod_statuses: string
  readonly events: string
  readonly log_tails: string | null
}

const partsBytesMax = 2 * 1024 * 1024

export function checkDiagnosticParts(parts: DiagnosticParts): void {
  for (const [path, text] of Object.entries(parts)) if (text !== null && !isJson(text as string)) throw invalidResult(path, 'must be JSON')
  const bytes = Object.values(parts).reduce((sum, text) => sum + Buffer.byteLength((text as string | null) ?? ''), 0)
  if (bytes > partsBytesMax) throw invalidResult('pod_statuses, events and log_tails', `must have at most ${partsBytesMax} bytes together`)
}

const invalidResult = (path: string, message: string): ApiError =>
  new ApiError('invalid_diagnostic_result', `${path} ${message}`, { details: { errors: [{ path, message }] } })

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
