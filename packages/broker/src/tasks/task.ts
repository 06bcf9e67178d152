// Interface of a background task. A task takes no input, acts on the current state and returns counts for operators.
export interface Task {
  readonly name: string
  /** Read before each wait, so that a changed setting takes effect. */
  readonly everyMs: () => number
  /** Runs in every process, which requires that row locks separate them. Other tasks run in one process per tick. */
  readonly isEverywhere?: true
  /** `signal` aborts when the process stops or the lease is lost. */
  run(signal: AbortSignal): Promise<Record<string, number>>
}
