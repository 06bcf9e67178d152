// What the feed tells of itself: how far behind it is, how it is woken, how far back its log reaches.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Metrics } from '@brokkr/runtime/metrics.ts'
import type { FeedView } from './reader.ts'

export interface FeedMetrics {
  polled(poll: { byTimer: boolean; rows: number; seconds: number }): void
  /** A canary came by, written at this time of the database's clock. */
  canary(writtenAt: string): void
}
export interface FeedGauges {
  readonly view: () => FeedView | null
  readonly isListenerUp: () => boolean
}

export function createFeedMetrics(deps: { metrics: Metrics; clock: Clock }, gauges: FeedGauges): FeedMetrics {
  const { metrics, clock } = deps
  const polls = metrics.counter('brokkr_feed_polls_total', 'Polls of the change feed')
  const rows = metrics.counter('brokkr_feed_rows_total', 'Rows read from the change feed, by what the poll was woken by', ['source'])
  const batch = metrics.histogram('brokkr_feed_batch_seconds', 'Time from the start of a poll that found rows until they were queued')
  const seen = metrics.histogram('brokkr_stream_propagation_seconds', 'Time from a change to its stage on the way', ['stage'])
  let canaryLagSeconds = 0
  refreshGauges(deps, gauges, () => canaryLagSeconds)
  return {
    polled: (poll) => {
      polls.inc()
      if (poll.rows === 0) return
      rows.inc({ source: poll.byTimer ? 'poll' : 'notify' }, poll.rows)
      batch.observe(poll.seconds)
    },
    canary: (writtenAt) => {
      // Two clocks: what they differ by must not show as news from the future.
      canaryLagSeconds = Math.max(0, (clock.now() - Date.parse(writtenAt)) / 1000)
      seen.observe({ stage: 'seen' }, canaryLagSeconds)
    },
  }
}

function refreshGauges(
  { metrics, clock }: { metrics: Metrics; clock: Clock },
  { view, isListenerUp }: FeedGauges,
  canaryLag: () => number,
): void {
  const lag = metrics.gauge('brokkr_feed_lag_seconds', 'How old the newest thing is that this process cannot have missed')
  const up = metrics.gauge('brokkr_feed_listener_up', '1 while wake-ups of other processes are heard')
  const inFlight = metrics.gauge('brokkr_feed_inflight_entries', 'Transactions under way at the last poll')
  const floorAge = metrics.gauge(
    'brokkr_feed_floor_age_seconds',
    'How far back the change log reaches; NaN while nothing was taken out of it',
  )
  const epoch = metrics.gauge('brokkr_feed_epoch_info', 'The history of the database that cursors belong to', ['epoch'])
  metrics.beforeScrape(() => {
    const now = view()
    up.set(isListenerUp() ? 1 : 0)
    if (now === null) return
    lag.set(Math.max(canaryLag(), (clock.monotonicMs() - now.polledAtMs) / 1000))
    inFlight.set(now.cursor.inFlight.length)
    floorAge.set(now.floorAgeSeconds ?? Number.NaN)
    epoch.reset()
    epoch.set({ epoch: now.epoch }, 1)
  })
}
