// How long to wait before the next try. The only file with Math.random: nothing here decides anything but a pause.

export type BackoffPolicy = {
  baseMs: number
  maxMs: number
  factor?: number
  /** none: exactly the step · full: 0 to the step · equal: half the step to the step · fifth: a fifth more or less. */
  jitter?: 'none' | 'full' | 'equal' | 'fifth'
}

/** Attempt 0 waits `baseMs`, each further one `factor` times longer, never more than `maxMs`. */
export function backoffDelayMs(policy: BackoffPolicy, attempt: number): number {
  const { baseMs, maxMs, factor = 2, jitter = 'none' } = policy
  // A factor to a large power is Infinity, and 0 times that is NaN: the exponent is bounded instead.
  const exponent = Math.min(Math.max(0, Math.trunc(attempt) || 0), 1_000)
  const stepMs = baseMs <= 0 ? 0 : Math.min(maxMs, baseMs * factor ** exponent)
  if (jitter === 'full') return randomBetween(0, stepMs)
  if (jitter === 'fifth') return addJitter(stepMs, 0.2)
  return jitter === 'equal' ? randomBetween(stepMs / 2, stepMs) : stepMs
}

/** `ms` moved by up to `share` of itself in either direction: jittered(1000, 0.1) is 900 to 1100. */
export function addJitter(ms: number, share: number): number {
  return randomBetween(ms * (1 - share), ms * (1 + share))
}

export function randomBetween(minMs: number, maxMs: number): number {
  return minMs + Math.random() * (maxMs - minMs)
}
