// Times and bounds of the processor that are no part of a flow's spec. All of them are settings, so that a test can make them small.
import { connectRetry, type RetryPolicy, sinkRetry } from './retry.ts'

export interface FlowSettings {
  readonly sinkRetry: RetryPolicy
  readonly connectRetry: RetryPolicy
  /** 0: for ever. */
  readonly sinkRetriesMax: number
  readonly flushMs: number
  /** From the signal to stop until what waits must be written. */
  readonly drainMs: number
  readonly saveMs: number
  readonly commitEveryMs: number
  readonly commitMessages: number
  /** A guilty message without a way out is tried again this often. */
  readonly blockedEveryMs: number
  /** A sink that refuses us counts as blocked after this. */
  readonly blockedAfterMs: number
  /** How long open messages may take when their partition is given back. */
  readonly revokeMs: number
  readonly lagEveryMs: number
  /** Work is open and no stage has tried anything for so long: not alive. */
  readonly progressTimeoutMs: number
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
  positionsMax: 1_000_000,
}
