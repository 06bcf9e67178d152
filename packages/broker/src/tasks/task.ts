// What a background task is: the same three keys everywhere. It takes no input and looks at the state; what it returns are
// counts for people.
export interface Task {
  readonly name: string
  /** Asked before each wait, so that a changed setting takes effect. */
  readonly everyMs: () => number
  /** Runs in every process, on rows that no two of them touch; the others run in one process per tick. */
  readonly isEverywhere?: true
  /** The signal is aborted when the process stops or the lease is lost: end soon. */
  run(signal: AbortSignal): Promise<Record<string, number>>
}
