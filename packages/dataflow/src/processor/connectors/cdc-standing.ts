// Where a change-capture source stands while it runs: its phase, what was handed out, what has ended, and what the slot may be told of
// it. No connection; every change that must be kept at once is told.
import type { JsonObject } from '@brokkr/contract/dataflow/json.ts'
import { CdcProgress } from './cdc-progress.ts'
import { type CdcPosition, type CdcState, compareCdc, parseState } from './cdc-state.ts'
import { type Lsn, parseLsn } from './pgoutput.ts'

export interface StandingDeps {
  now(): number
  /** Must be kept at once. */
  changed(): void
}

export class CdcStanding {
  readonly #deps: StandingDeps
  #state: CdcState | undefined
  #progress: CdcProgress
  /** The last position handed out of the stream. */
  handedOut: CdcPosition | undefined
  /** Once, although there is a slot: snapshotMode always. */
  mustSnapshot = false
  /** The tables of the flow, by their full names. */
  tables: readonly string[] = []
  /** Last position of each table of the running snapshot. */
  #ends: { table: string; at: CdcPosition | undefined }[] = []
  /** The last position that ended. */
  #ended: CdcPosition | undefined

  constructor(deps: StandingDeps, stored: JsonObject | undefined) {
    this.#deps = deps
    this.#state = parseState(stored)
    this.#progress = new CdcProgress(this.#state?.ackedLsn ?? 0n)
  }

  get state(): CdcState | undefined {
    return this.#state
  }

  get progress(): CdcProgress {
    return this.#progress
  }

  /** A slot that is new knows nothing of what was read before it; an unfinished snapshot goes on with the tables that lack. */
  beginEra(at: Lsn, isGoingOn: boolean): void {
    const completed = isGoingOn ? this.#state!.completed : []
    this.#state = { ...this.newState(at), completed, snapshotLsn: isGoingOn ? this.#state!.snapshotLsn : at }
    this.#progress = new CdcProgress(at)
    this.handedOut = undefined
    this.#ended = undefined
    this.#ends = []
    this.mustSnapshot = false
    this.#deps.changed()
  }

  /** By hand: undefined begins anew. */
  setBack(state: CdcState | undefined): void {
    this.#state = state
    this.handedOut = undefined
    this.#progress = new CdcProgress(state?.ackedLsn ?? 0n)
    this.#deps.changed()
  }

  newState(at: Lsn): CdcState {
    const era = Math.max(this.#deps.now(), (this.#state?.era ?? 0) + 1)
    return { phase: 'snapshot', era, ackedLsn: at, snapshotLsn: at, completed: [] }
  }

  /** All rows of a table were handed out; the last of them may have ended before we knew that it was the last, and a table without rows
   *  ends with what came before it. */
  readTable(table: string, last: CdcPosition | undefined): void {
    this.#ends.push({ table, at: last })
    this.#completeTables(this.#ended)
  }

  /** All tables were read. */
  readSnapshot(): void {
    if (this.#ends.length === 0) this.finishSnapshot()
  }

  finishSnapshot(): void {
    this.#state = { ...this.#state!, phase: 'streaming', completed: this.tables }
    this.#deps.changed()
  }

  /** Everything up to the position has ended. False when it belongs to an era that is over. */
  committed(position: CdcPosition): boolean {
    if (this.#state === undefined || position.e !== this.#state.era) return false
    this.#ended = position
    if (position.l !== '') this.#progress.ended(parseLsn(position.l), position.n)
    this.#completeTables(position)
    this.acknowledge()
    return true
  }

  /** A table is done when its last row has ended, not when it was read. */
  #completeTables(upTo: CdcPosition | undefined): void {
    const state = this.#state
    if (state === undefined || state.phase !== 'snapshot' || this.#ends.length === 0) return
    const done = this.#ends
      .filter(({ at }) => at === undefined || (upTo !== undefined && compareCdc(at, upTo) <= 0))
      .map(({ table }) => table)
    const completed = [...new Set([...state.completed, ...done])]
    if (completed.length === state.completed.length) return
    this.#state = { ...state, completed }
    if (this.tables.every((table) => completed.includes(table))) this.finishSnapshot()
    else this.#deps.changed()
  }

  acknowledge(): void {
    const state = this.#state
    if (state?.phase !== 'streaming' || this.#progress.confirmed <= state.ackedLsn) return
    this.#state = { ...state, ackedLsn: this.#progress.confirmed }
  }

  /** While rows of the snapshot are open the slot stays where it is: after a crash it must still know all that came since. */
  get confirmable(): Lsn {
    return this.#state?.phase === 'streaming' ? this.#progress.confirmed : (this.#state?.ackedLsn ?? 0n)
  }
}
