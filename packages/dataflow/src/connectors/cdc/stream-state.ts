// State of a change-capture source while it runs: phase, emitted and finished positions, and the position that the slot may confirm.
// Without a connection; reports changes that must be saved at once.
import type { JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import { type Lsn, parseLsn } from './pgoutput.ts'
import { CdcProgress } from './progress.ts'
import { type CdcPosition, type CdcState, compareCdcPositions, parseState } from './state.ts'

export interface StreamStateDeps {
  now(): number
  /** Must be saved at once. */
  changed(): void
}

export class CdcStreamState {
  readonly #deps: StreamStateDeps
  #state: CdcState | undefined
  #progress: CdcProgress
  /** Last emitted position of the stream. */
  handedOut: CdcPosition | undefined
  /** A snapshot is due although the slot exists: snapshotMode always. */
  mustSnapshot = false
  /** Tables of the flow, by full name. */
  tables: readonly string[] = []
  /** Last position of each table of the running snapshot. */
  #ends: { table: string; at: CdcPosition | undefined }[] = []
  /** Last position with an outcome. */
  #ended: CdcPosition | undefined

  constructor(deps: StreamStateDeps, stored: JsonObject | undefined) {
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

  /** Tables of the flow that no snapshot has read. */
  get addedTables(): readonly string[] {
    return this.tables.filter((table) => this.#state?.completed.includes(table) !== true)
  }

  /** A table that returns to the flow needs a snapshot, because its changes were not captured meanwhile. */
  forgetRemovedTables(): void {
    this.#keepCompleted((table) => this.tables.includes(table))
  }

  /** Tables that were not published, for example because they were recreated, need a snapshot. */
  forgetTables(names: readonly string[]): void {
    this.#keepCompleted((table) => !names.includes(table))
  }

  #keepCompleted(isKept: (table: string) => boolean): void {
    const state = this.#state
    const completed = state?.completed.filter(isKept) ?? []
    if (state === undefined || completed.length === state.completed.length) return
    this.#state = { ...state, completed }
    this.#deps.changed()
  }

  /** A new slot has no earlier changes; an unfinished snapshot continues with the remaining tables. */
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

  /** For a rewind; undefined starts from the beginning. */
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

  /** All rows of a table were emitted; its last row may already have an outcome, and a table without rows ends with the previous one. */
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

  /** All messages up to the position have an outcome. False if the position belongs to an earlier era. */
  committed(position: CdcPosition): boolean {
    if (this.#state === undefined || position.e !== this.#state.era) return false
    this.#ended = position
    if (position.l !== '') this.#progress.ended(parseLsn(position.l), position.n)
    this.#completeTables(position)
    this.acknowledge()
    return true
  }

  /** A table is done when its last row has an outcome, not when it was read. */
  #completeTables(upTo: CdcPosition | undefined): void {
    const state = this.#state
    if (state === undefined || state.phase !== 'snapshot' || this.#ends.length === 0) return
    const completedTables = this.#ends
      .filter(({ at }) => at === undefined || (upTo !== undefined && compareCdcPositions(at, upTo) <= 0))
      .map(({ table }) => table)
    const completed = [...new Set([...state.completed, ...completedTables])]
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

  /** While snapshot rows are in flight the slot keeps its position: after a crash it must still have all later changes. */
  get confirmable(): Lsn {
    return this.#state?.phase === 'streaming' ? this.#progress.confirmed : (this.#state?.ackedLsn ?? 0n)
  }
}
