// Times and limits of the processor that are not part of a flow's spec. Tests use small values.
import { connectRetry, type RetryPolicy, sinkRetry } from './pipeline/retry.ts'

export interface FlowSettings {
  readonly sinkRetry: RetryPolicy
  readonly connectRetry: RetryPolicy
  /** 0: no limit. */
  readonly sinkRetriesMax: number
  readonly flushMs: number
  /** From the stop signal until queued records must be written. */
  readonly drainMs: number
  readonly saveMs: number
  readonly commitEveryMs: number
  readonly commitMessages: number
  /** Pause between two attempts of a message that blocks the flow. */
  readonly blockedEveryMs: number
  /** A connector that rejects the flow for this long blocks it. */
  readonly blockedAfterMs: number
  /** Time for in-flight messages of a revoked partition. */
  readonly revokeMs: number
  readonly lagEveryMs: number
  /** Messages are in flight and no stage made an attempt for this long: not alive. */
  readonly progressTimeoutMs: number
  /** Input waits and no record was written for this long: stalled. */
  readonly stalledAfterMs: number
  readonly positionsMax: number
}

export const defaultSettings: FlowSettings = {
  sinkRetry,
  connectRetry,
  sinkRetriesMax: 0,
  flushMs: 300_000,
  drainMs: 30_000,
  saveMs: 10_000,
  commitEveryMs: 1_000,
  commitMessages: 10_000,
  blockedEveryMs: 30_000,
  blockedAfterMs: 60_000,
  revokeMs: 10_000,
  lagEveryMs: 10_000,
  progressTimeoutMs: 600_000,
  stalledAfterMs: 120_000,
  positionsMax: 1_000_000,
}
