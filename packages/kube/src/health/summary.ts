// The health of a set of objects, in the four words that the rest of the system knows. Pure.
import { type Verdict, worst } from './verdict.ts'

export type SetStatus = 'healthy' | 'degraded' | 'failing' | 'unknown'

export interface SetHealth {
  status: SetStatus
  /** Something is under way; then degraded is no alarm yet. */
  progressing: boolean
}

/** Nothing to judge: unknown. */
export function summarise(verdicts: readonly Verdict[]): SetHealth {
  const first = worst(verdicts)
  return { status: first ? statusOf(first) : 'unknown', progressing: verdicts.some(({ state }) => state === 'progressing') }
}

export function statusOf(verdict: Verdict): SetStatus {
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
