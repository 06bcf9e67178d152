// State of a change-capture source in the checkpoint. Pure. Every snapshot starts an era: its rows come before the stream that follows, and
// all positions of a later era come after those of an earlier one.
import type { Json, JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import type { Position } from '../connector.ts'
import { type Lsn, lsnText, parseLsn } from './pgoutput.ts'

export interface CdcState {
  readonly phase: 'snapshot' | 'streaming'
  readonly era: number
  readonly ackedLsn: Lsn
  readonly snapshotLsn: Lsn
  readonly completed: readonly string[]
}

/** e: era · l: commit position of the transaction, empty for snapshot rows · n: number within. */
export type CdcPosition = { readonly e: number; readonly l: string; readonly n: number }

export function compareCdcPositions(left: Position, right: Position): number {
  const [a, b] = [left as CdcPosition, right as CdcPosition]
  if (a.e !== b.e) return a.e - b.e
  if (a.l !== b.l) {
    if (a.l === '' || b.l === '') return a.l === '' ? -1 : 1
    return parseLsn(a.l) < parseLsn(b.l) ? -1 : 1
  }
  return a.n - b.n
}

export function printState(state: CdcState, names: { slotName: string; publicationName: string }): JsonObject {
  return {
    lastAckedLSN: lsnText(state.ackedLsn),
    snapshotLSN: lsnText(state.snapshotLsn),
    ...names,
    phase: state.phase,
    snapshotCompletedTables: [...state.completed],
    era: state.era,
  }
}

/** Undefined for an unusable state: the source starts from the beginning. */
export function parseState(stored: JsonObject | undefined): CdcState | undefined {
  if (stored === undefined || (stored['phase'] !== 'snapshot' && stored['phase'] !== 'streaming')) return undefined
  try {
    return {
      phase: stored['phase'],
      era: Number(stored['era'] ?? 0),
      ackedLsn: parseLsn(toLsnText(stored['lastAckedLSN'])),
      snapshotLsn: parseLsn(toLsnText(stored['snapshotLSN'])),
      completed: Array.isArray(stored['snapshotCompletedTables']) ? stored['snapshotCompletedTables'].map(toLsnText) : [],
    }
  } catch {
    return undefined
  }
}

const toLsnText = (value: Json | undefined): string => (typeof value === 'string' ? value : '0/0')
