// Interface of dead-letter tables for a replay: read in write order, marked when they are done. A dead letter that fails again keeps its
// row, with one attempt more, and is not marked.

export interface DeadLetterRow {
  readonly id: string
  /** Time of writing as the server prints it; the next page starts behind it and the id. */
  readonly at: string
  /** JSON text of `{error, original_message}`. */
  readonly letter: string
}

export interface KeptDeadLetter {
  readonly id: string
  /** JSON texts. */
  readonly error: string
  readonly original: string
}

export interface DeadLetterRows {
  connect(): Promise<void>
  /** Letters of the flow without a mark, behind a row of the last page. Leaves out letters newer than the first call: they belong to the
   *  next replay. */
  page(flow: string, after: Pick<DeadLetterRow, 'at' | 'id'> | undefined, limit: number): Promise<readonly DeadLetterRow[]>
  markReplayed(ids: readonly string[]): Promise<void>
  keep(letters: readonly KeptDeadLetter[]): Promise<void>
  close(): Promise<void>
}
