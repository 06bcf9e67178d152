// Settings of the change feed, with the names of the configuration.

export interface FeedSettings {
  readonly poll_ms: number
  readonly ping_seconds: number
  readonly stale_seconds: readonly [number, number]
  readonly stream_life_seconds: readonly [number, number]
  readonly queue_keys: number
  readonly queue_bytes: number
  readonly slow_seconds: number
  readonly ring_rows: number
  readonly ring_seconds: number
  readonly inline_bytes: number
  readonly listener_test_seconds: readonly [number, number]
  readonly streams_max: number
  readonly snapshots: number
  readonly snapshots_waiting: number
  readonly dead_seconds: number
  readonly far_end_check_seconds: number
  readonly drain_per_second: number
  readonly canary_seconds: number
  readonly recheck_seconds: number
  readonly loop_delay_ms: number
  readonly memory_share: number
}
