// Metrics of the reader: lag, polls, wake-ups and the age of the change log. Alerts: docs/alerts/feed.yaml.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import type { PollResult } from './feed-events.ts'
import type { FeedView } from './reader.ts'

export interface FeedMetrics {
  recordPoll(poll: PollResult): void
  /** `ageSeconds` by the database's clock. */
  recordCanary(ageSeconds: number): void
  /** A change reached a stage: queued on a stream, received by an agent, or applied. */
  recordPropagation(stage: 'written' | 'received' | 'applied', seconds: number): void
  recordRingHit(): void
  recordNewEpoch(): void
  recordDigestCheck(result: 'match' | 'moved' | 'mismatch'): void
  recordNack(code: string): void
  /** Connects the gauges that are read at each scrape. */
  observe(gauges: FeedGauges): void
}
export interface FeedGauges {
  readonly view: () => FeedView | null
  readonly isListening: () => boolean
  /** Age of the oldest open transaction by the database's clock. */
  readonly oldestTransactionSeconds: () => Promise<number>
}

/** Only status codes may become label values. */
const codePattern = /^[a-z_]{1,40}$/

export function createFeedMetrics(deps: { metrics: Metrics; clock: Clock }): FeedMetrics {
  const { metrics } = deps
  const polls = metrics.counter('brokkr_feed_polls_total', 'Number of polls of the change feed')
  const rows = metrics.counter('brokkr_feed_rows_total', 'Number of change rows read, by what started the poll', ['source'])
  const batch = metrics.histogram('brokkr_feed_batch_seconds', 'Time from the start of a poll with rows until all frames are queued')
  const ringHits = metrics.counter('brokkr_feed_ring_hits_total', 'Number of streams that resumed from the ring buffer')
  const epochs = metrics.counter('brokkr_feed_epochs_total', 'Number of new epochs seen by this process')
  const stages = metrics.histogram(
    'brokkr_stream_propagation_seconds',
    'Time from a change to a stage of its propagation; `received` is estimated as half of the round trip',
    ['stage'],
  )
  const checks = metrics.counter('brokkr_stream_digest_checks_total', 'Number of digest comparisons between broker and agents, by result', [
    'result',
  ])
  const nacks = metrics.counter('brokkr_stream_nacks_total', 'Number of status reports with phase failed or held, by code', ['code'])
  for (const result of ['match', 'moved', 'mismatch']) checks.inc({ result }, 0)
  for (const source of ['notify', 'poll']) rows.inc({ source }, 0)
  nacks.inc({ code: 'prune_guard' }, 0)
  let canaryLagSeconds = 0
  return {
    recordPoll: (poll) => {
      polls.inc()
      if (poll.rows === 0) return
      rows.inc({ source: poll.byTimer ? 'poll' : 'notify' }, poll.rows)
      batch.observe(poll.seconds)
    },
    recordCanary: (ageSeconds) => {
      canaryLagSeconds = Math.max(0, ageSeconds)
      stages.observe({ stage: 'seen' }, canaryLagSeconds)
    },
    recordPropagation: (stage, seconds) => stages.observe({ stage }, Math.max(0, seconds)),
    recordRingHit: () => ringHits.inc(),
    recordNewEpoch: () => epochs.inc(),
    recordDigestCheck: (result) => checks.inc({ result }),
    observe: (gauges) => observeGauges(deps, gauges, () => canaryLagSeconds),
    recordNack: (code) => nacks.inc({ code: codePattern.test(code) ? code : 'other' }),
  }
}

function observeGauges(
  { metrics, clock }: { metrics: Metrics; clock: Clock },
  { view, isListening, oldestTransactionSeconds }: FeedGauges,
  getCanaryLag: () => number,
): void {
  const lag = metrics.gauge('brokkr_feed_lag_seconds', 'Age of the last fully processed change')
  const up = metrics.gauge('brokkr_feed_listener_up', '1 while LISTEN is connected and its self-test passes')
  const inFlight = metrics.gauge('brokkr_feed_inflight_entries', 'Number of in-flight transactions at the last poll')
  const oldest = metrics.gauge('brokkr_feed_oldest_xid_seconds', 'Age of the oldest open transaction that may write')
  const floorAge = metrics.gauge(
    'brokkr_feed_floor_age_seconds',
    'Age of the oldest change row that may have been deleted; NaN before the first cleanup',
  )
  const epoch = metrics.gauge('brokkr_feed_epoch_info', 'Current epoch, as a label', ['epoch'])
  metrics.beforeScrape(async () => {
    const current = view()
    up.set(isListening() ? 1 : 0)
    if (current === null) return
    lag.set(Math.max(getCanaryLag(), (clock.monotonicMs() - current.polledAtMs) / 1000))
    inFlight.set(current.cursor.inFlight.length)
    floorAge.set(current.floorAgeSeconds ?? Number.NaN)
    epoch.reset()
    epoch.set({ epoch: current.epoch }, 1)
    // The lag shows an unreachable database.
    oldest.set(await oldestTransactionSeconds().catch(() => Number.NaN))
  })
}
