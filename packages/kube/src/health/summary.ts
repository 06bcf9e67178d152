// Health of a set of objects in four states. Pure.
import { type Verdict, worst } from './verdict.ts'

export type SetStatus = 'healthy' | 'degraded' | 'failing' | 'unknown'

export interface SetHealth {
  status: SetStatus
  /** A change is in progress, so degraded is not yet an alarm. */
  progressing: boolean
}

/** Without objects the result is unknown. */
export function summarizeHealth(verdicts: readonly Verdict[]): SetHealth {
  const first = worst(verdicts)
  return { status: first ? toSetStatus(first) : 'unknown', progressing: verdicts.some(({ state }) => state === 'progressing') }
}

export function toSetStatus(verdict: Verdict): SetStatus {
  switch (verdict.state) {
    case 'ready':
      return 'healthy'
    case 'progressing':
      return 'degraded'
    case 'degraded':
    case 'failing':
    case 'unknown':
      return verdict.state
    default:
      return verdict.state satisfies never
  }
}
