// One abort signal out of several reasons to stop, with a time limit. Hand-made because it runs for every request, and because
// listeners on a signal that lives as long as the process must be taken off again.

export interface Deadline {
  readonly signal: AbortSignal
  readonly timedOut: boolean
  /** Ends the time limit, for answers that may go on for ever; the signals still count. */
  lift(): void
  clear(): void
}

export function startDeadline(timeoutMs: number, signals: ReadonlyArray<AbortSignal | undefined>): Deadline {
  const controller = new AbortController()
  let timedOut = false
  const timer = setTimeout(() => {
    timedOut = true
    controller.abort(new Error(`no answer within ${timeoutMs} ms`))
  }, timeoutMs)
  const given = signals.filter((signal) => signal !== undefined)
  const follow = given.map((signal) => ({ signal, abort: () => controller.abort(signal.reason) }))
  for (const { signal, abort } of follow) {
    if (signal.aborted) abort()
    else signal.addEventListener('abort', abort, { once: true })
  }
  return {
    signal: controller.signal,
    get timedOut() {
      return timedOut
    },
    lift: () => clearTimeout(timer),
    clear() {
      clearTimeout(timer)
      for (const { signal, abort } of follow) signal.removeEventListener('abort', abort)
    },
  }
}
