// What one direction of a proxied connection does next: pure, so that every mix of faults can be tried as a table.

/** Everything a fault proxy can do to one direction; `noFaults` passes bytes on as they come. */
export type LaneFaults = {
  /** Nothing passes, not even an end or a reset; the sockets stay. */
  halfOpen: boolean
  delayMs: number
  /** Per connection; 0: no limit. */
  bytesPerSecond: number
  limit?: Limit
}
/** Counted per connection from the moment the fault was set: a new object begins a new count. */
export type Limit = { bytes: number; end: 'reset' | 'truncate' }

export const noFaults: LaneFaults = { halfOpen: false, delayMs: 0, bytesPerSecond: 0 }

/** What arrived and has not been passed on yet, oldest first. */
export type Arrival = { atMs: number; is: 'data'; data: Buffer } | { atMs: number; is: 'end' | 'reset' }

export type LaneState = {
  first: Arrival | undefined
  /** Bytes passed on since the present limit was set. */
  passed: number
  /** A throttled lane rests until then. */
  restUntilMs: number
  truncated: boolean
}

export type Step =
  | { do: 'wait'; ms: number } // Infinity: until something arrives or the faults change
  | { do: 'pass'; bytes: number; restMs: number }
  | { do: 'drop' | 'end' | 'reset' | 'truncate' }

export function nextStep(state: LaneState, faults: LaneFaults, nowMs: number): Step {
  const { first } = state
  if (faults.halfOpen) return { do: 'wait', ms: Number.POSITIVE_INFINITY }
  if (state.truncated) return afterTruncation(first)
  if (faults.limit && state.passed >= faults.limit.bytes) return { do: faults.limit.end }
  if (!first) return { do: 'wait', ms: Number.POSITIVE_INFINITY }
  const dueMs = Math.max(first.atMs + faults.delayMs, faults.bytesPerSecond > 0 ? state.restUntilMs : 0)
  if (dueMs > nowMs) return { do: 'wait', ms: dueMs - nowMs }
  return first.is === 'data' ? pass(first.data.length, state, faults) : { do: first.is }
}

/** After a clean end at the receiver, later bytes are discarded, so that the sender does not block. A reset still counts. */
function afterTruncation(first: Arrival | undefined): Step {
  if (!first) return { do: 'wait', ms: Number.POSITIVE_INFINITY }
  return first.is === 'reset' ? { do: 'reset' } : { do: 'drop' }
}

function pass(available: number, state: LaneState, faults: LaneFaults): Step {
  const throttled = faults.bytesPerSecond > 0
  // Fifty slices a second: smooth enough to look like a slow line, few enough to cost nothing.
  const slice = throttled ? Math.max(1, Math.ceil(faults.bytesPerSecond / 50)) : available
  const remainingBytes = faults.limit ? faults.limit.bytes - state.passed : available
  const bytes = Math.min(available, slice, remainingBytes)
  return { do: 'pass', bytes, restMs: throttled ? (bytes / faults.bytesPerSecond) * 1_000 : 0 }
}
