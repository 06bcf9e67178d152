// What the feed tells of itself: how far behind it is, how it is woken, how far back its log reaches.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Metrics } from '@brokkr/runtime/metrics.ts'
import type { FeedView } from './reader.ts'

export interface FeedMetrics {
  polled(poll: { byTimer: boolean; rows: number; seconds: number }): void
  /** A canary came by, so old by the database's clock. */
  canary(ageSeconds: number): void
  /** An ordinary change reached a stage on its way. */
  propagated(stage: 'written' | 'received' | 'applied', seconds: number): void
  ringHit(): void
  newEpoch(): void
  checked(result: 'match' | 'moved' | 'mismatch'): void
  nack(code: string): void
}
export interface FeedGauges {
  readonly view: () => FeedView | null
  readonly isListenerUp: () => boolean
  /** Age of the oldest transaction under way, by the database's clock. */
  readonly oldestTransactionSeconds: () => Promise<number>
}

/** Codes of reports; a label must not take any text. */
const codePattern = /^[a-z_]{1,40}$/

export function createFeedMetrics(deps: { metrics: Metrics; clock: Clock }, gauges: FeedGauges): FeedMetrics {
  const { metrics } = deps
  const polls = metrics.counter('brokkr_feed_polls_total', 'Polls of the change feed')
  const rows = metrics.counter('brokkr_feed_rows_total', 'Rows read from the change feed, by what the poll was woken by', ['source'])
  const batch = metrics.histogram('brokkr_feed_batch_seconds', 'Time from the start of a poll that found rows until they were queued')
  const ringHits = metrics.counter('brokkr_feed_ring_hits_total', 'Streams that resumed from memory')
  const epochs = metrics.counter('brokkr_feed_epochs_total', 'New epochs that this process noticed: each is a history that broke')
  const stages = metrics.histogram(
    'brokkr_stream_propagation_seconds',
    'Time from a change to its stage on the way; received is estimated as half of the way there and back',
    ['stage'],
  )
  const checks = metrics.counter('brokkr_stream_digest_checks_total', 'Comparisons of what agents hold with what they should', ['result'])
  const nacks = metrics.counter('brokkr_stream_nacks_total', 'Reports of stacks that failed or are held', ['code'])
  for (const result of ['match', 'moved', 'mismatch']) checks.inc({ result }, 0)
  for (const source of ['notify', 'poll']) rows.inc({ source }, 0)
  nacks.inc({ code: 'prune_guard' }, 0)
  let canaryLagSeconds = 0
  refreshGauges(deps, gauges, () => canaryLagSeconds)
  return {
    polled: (poll) => {
      polls.inc()
      if (poll.rows === 0) return
      rows.inc({ source: poll.byTimer ? 'poll' : 'notify' }, poll.rows)
      batch.observe(poll.seconds)
    },
    canary: (ageSeconds) => {
      canaryLagSeconds = Math.max(0, ageSeconds)
      stages.observe({ stage: 'seen' }, canaryLagSeconds)
    },
    propagated: (stage, seconds) => stages.observe({ stage }, Math.max(0, seconds)),
    ringHit: () => ringHits.inc(),
    newEpoch: () => epochs.inc(),
    checked: (result) => checks.inc({ result }),
    nack: (code) => nacks.inc({ code: codePattern.test(code) ? code : 'other' }),
  }
}

function refreshGauges(
  { metrics, clock }: { metrics: Metrics; clock: Clock },
  { view, isListenerUp, oldestTransactionSeconds }: FeedGauges,
  canaryLag: () => number,
): void {
  const lag = metrics.gauge('brokkr_feed_lag_seconds', 'How old the newest thing is that this process cannot have missed')
  const up = metrics.gauge('brokkr_feed_listener_up', '1 while wake-ups of other processes are heard')
  const inFlight = metrics.gauge('brokkr_feed_inflight_entries', 'Transactions under way at the last poll')
  const oldest = metrics.gauge('brokkr_feed_oldest_xid_seconds', 'Age of the oldest transaction under way that may write')
  const floorAge = metrics.gauge(
    'brokkr_feed_floor_age_seconds',
    'How far back the change log reaches; NaN while nothing was taken out of it',
  )
  const epoch = metrics.gauge('brokkr_feed_epoch_info', 'The history of the database that cursors belong to', ['epoch'])
  metrics.beforeScrape(async () => {
    const now = view()
    up.set(isListenerUp() ? 1 : 0)
    if (now === null) return
    lag.set(Math.max(canaryLag(), (clock.monotonicMs() - now.polledAtMs) / 1000))
    inFlight.set(now.cursor.inFlight.length)
    floorAge.set(now.floorAgeSeconds ?? Number.NaN)
    epoch.reset()
    epoch.set({ epoch: now.epoch }, 1)
    // A database that is away says nothing; the lag does.
    oldest.set(await oldestTransactionSeconds().catch(() => Number.NaN))
  })
}
