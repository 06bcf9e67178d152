// One abort signal from several signals and a time limit. AbortSignal.any is not used, because this runs per request and must remove its
// listeners from signals that live as long as the process.

export interface Deadline {
  readonly signal: AbortSignal
  readonly timedOut: boolean
  /** Removes the time limit, for endless responses; the signals stay. */
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
  const presentSignals = signals.filter((signal) => signal !== undefined)
  const follow = presentSignals.map((signal) => ({ signal, abort: () => controller.abort(signal.reason) }))
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
