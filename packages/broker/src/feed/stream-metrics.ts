// What streams tell of themselves: how many there are, how they began and ended, what was sent, how much waits.
import type { Metrics } from '@brokkr/runtime/metrics.ts'
import type { FrameStream } from './stream.ts'

export interface StreamMetrics {
  started(mode: 'resume' | 'snapshot' | 'reset', reason: string | null): void
  readonly closed: (reason: string) => void
  readonly frame: (type: string) => void
}
export interface StreamGauges {
  readonly streams: () => { readonly agent: readonly FrameStream[]; readonly watch: readonly FrameStream[] }
  readonly snapshots: () => { readonly active: number; readonly waiting: number }
}

/** Reasons an agent may give for a snapshot; a label must not take any text. */
const knownReasons: ReadonlySet<string> = new Set(['first', 'gone', 'epoch', 'digest', 'daily', 'bad_cursor'])

export function createStreamMetrics(metrics: Metrics, gauges: StreamGauges): StreamMetrics {
  const starts = metrics.counter('brokkr_stream_starts_total', 'Streams that began, and why with a snapshot', ['mode', 'reason'])
  const closes = metrics.counter('brokkr_stream_closes_total', 'Streams that ended', ['reason'])
  const frames = metrics.counter('brokkr_stream_frames_total', 'Frames written', ['type'])
  // Every frame to every agent is counted, so counting is one addition; the scrape is told the sum.
  const written = new Map<string, number>()
  metrics.beforeScrape(() => {
    for (const [type, count] of written) frames.inc({ type }, count)
    written.clear()
  })
  refreshGauges(metrics, gauges)
  return {
    started: (mode, reason) => starts.inc({ mode, reason: reason === null ? 'none' : knownReasons.has(reason) ? reason : 'other' }),
    closed: (reason) => closes.inc({ reason }),
    frame: (type) => void written.set(type, (written.get(type) ?? 0) + 1),
  }
}

function refreshGauges(metrics: Metrics, { streams, snapshots }: StreamGauges): void {
  const open = metrics.gauge('brokkr_stream_open', 'Open streams', ['follower'])
  const keys = metrics.gauge('brokkr_stream_pending_keys', 'Frames that wait in the queues of streams')
  const bytes = metrics.gauge('brokkr_stream_buffered_bytes', 'Their bytes')
  const waiting = metrics.gauge('brokkr_stream_snapshots_waiting', 'Agents that wait in line for a snapshot')
  const active = metrics.gauge('brokkr_stream_snapshots_active', 'Agents that get a snapshot right now')
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
