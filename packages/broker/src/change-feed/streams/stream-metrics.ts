// Metrics of streams and watches: open ones, starts, closes, frames and queues.
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import type { FrameStream } from './frame-stream.ts'

export interface StreamMetrics {
  recordStart(mode: 'resume' | 'snapshot' | 'reset', reason: string | null): void
  readonly recordClose: (reason: string) => void
  readonly recordFrame: (type: string) => void
  /** Connects the gauges that are read at each scrape. */
  observe(gauges: StreamGauges): void
}
export interface StreamGauges {
  readonly streams: () => { readonly agent: readonly FrameStream[]; readonly watch: readonly FrameStream[] }
  readonly snapshots: () => { readonly active: number; readonly waiting: number }
}

/** Reasons that may become label values; an agent may send any text. */
const labelReasons: ReadonlySet<string> = new Set(['first', 'gone', 'epoch', 'digest', 'daily', 'bad_cursor'])

export function createStreamMetrics(metrics: Metrics): StreamMetrics {
  const starts = metrics.counter('brokkr_stream_starts_total', 'Number of started streams by mode and reason of a snapshot', [
    'mode',
    'reason',
  ])
  const closes = metrics.counter('brokkr_stream_closes_total', 'Number of closed streams by reason', ['reason'])
  const frames = metrics.counter('brokkr_stream_frames_total', 'Number of frames written by type', ['type'])
  // One addition per frame and agent; the counter gets the sum at each scrape.
  const frameCounts = new Map<string, number>()
  metrics.beforeScrape(() => {
    for (const [type, count] of frameCounts) frames.inc({ type }, count)
    frameCounts.clear()
  })
  return {
    recordStart: (mode, reason) => starts.inc({ mode, reason: reason === null ? 'none' : labelReasons.has(reason) ? reason : 'other' }),
    recordClose: (reason) => closes.inc({ reason }),
    observe: (gauges) => observeGauges(metrics, gauges),
    recordFrame: (type) => void frameCounts.set(type, (frameCounts.get(type) ?? 0) + 1),
  }
}

function observeGauges(metrics: Metrics, { streams, snapshots }: StreamGauges): void {
  const open = metrics.gauge('brokkr_stream_open', 'Number of open streams and watches', ['follower'])
  const keys = metrics.gauge('brokkr_stream_pending_keys', 'Number of frames queued on open streams')
  const bytes = metrics.gauge('brokkr_stream_buffered_bytes', 'Bytes queued on open streams')
  const waiting = metrics.gauge('brokkr_stream_snapshots_waiting', 'Number of agents that wait for a snapshot')
  const active = metrics.gauge('brokkr_stream_snapshots_active', 'Number of snapshots in progress')
  metrics.beforeScrape(() => {
    const { agent, watch } = streams()
    open.set({ follower: 'agent' }, agent.length)
    open.set({ follower: 'watch' }, watch.length)
    let [keySum, byteSum] = [0, 0]
    for (const stream of [...agent, ...watch]) {
      keySum += stream.queuedKeys
      byteSum += stream.queuedBytes
    }
    keys.set(keySum)
    bytes.set(byteSum)
    waiting.set(snapshots().waiting)
    active.set(snapshots().active)
  })
}
