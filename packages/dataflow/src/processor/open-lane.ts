// One lane of a flow, opened by its plan: who hears of what is written, refused and given up at its sink.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Activity } from './activity.ts'
import type { Committer } from './committer.ts'
import type { Sink, Source } from './connectors/connector.ts'
import { isMonotonic, type LanePlan } from './flow-lanes.ts'
import type { FlowWatch } from './flow-watch.ts'
import type { Judge } from './judge.ts'
import { Lane, type LaneDeps } from './lane.ts'
import type { LaneSet } from './lane-set.ts'
import type { LetterSender } from './letter-sender.ts'
import type { Item } from './open-message.ts'
import type { OpenMessages } from './open-messages.ts'
import type { PipelineOptions } from './pipeline-options.ts'

export interface OpenLaneDeps extends Pick<LaneDeps, 'coverage' | 'exclusively'> {
  readonly clock: Clock
  readonly stopping: AbortSignal
  readonly source: Pick<Source, 'compare'>
  readonly activity: Activity
  readonly open: OpenMessages
  readonly lanes: LaneSet
  readonly watch: FlowWatch
  readonly judge: Judge
  readonly letters: LetterSender | undefined
  readonly committer: Committer
  readonly wrote: (records: number) => void
}

export function openLane(deps: OpenLaneDeps, { flow, settings }: PipelineOptions, plan: LanePlan, sink: Sink): Lane {
  const { clock, stopping, open, watch, judge, coverage } = deps
  return new Lane(
    {
      sink,
      clock,
      stopping,
      coverage,
      exclusively: (work) => deps.exclusively(work),
      compare: (left, right) => deps.source.compare(left, right),
      attempt: () => deps.activity.touch(),
      written: (lane, items, tookMs) => {
        watch.written(lane, items, tookMs)
        endWritten(deps, lane, items)
      },
      writtenBefore: (lane, item) => {
        watch.avoided(lane)
        open.end(item.from, 'written-before')
      },
      failed: (lane, error) => watch.failed({ operation: 'write', connector: lane.options.sinkType, at: lane.options.name }, error),
      givesUp: (lane) => givesUp(deps, lane, plan),
      guilty: (...of) => guilty(deps, ...of),
      released: (item) => judge.released(item),
      flushed: () => (flow.ackGranularity === 'message' ? deps.committer.commit() : Promise.resolve()),
    },
    {
      name: plan.name,
      role: plan.role,
      sinkType: plan.spec.type,
      bounds: plan.bounds,
      writesBytes: plan.writesBytes,
      skips: isMonotonic(flow) && plan.role !== 'errors',
      queueMax: plan.bounds.records + flow.channelBufferSize,
      writer: {
        retry: settings.sinkRetry,
        retriesMax: settings.sinkRetriesMax,
        flushMs: settings.flushMs,
        stoppingFlushMs: settings.drainMs,
      },
    },
  )
}

function endWritten({ lanes, letters, judge, open, wrote }: OpenLaneDeps, lane: Lane, items: readonly Item[]): void {
  if (lane === lanes.errors) return letters?.written(items)
  wrote(items.length)
  judge.written()
  for (const { from } of items) open.end(from, 'written')
}

async function guilty(deps: OpenLaneDeps, ...[lane, item, error, attempts]: Parameters<Judge['record']>): ReturnType<Judge['record']> {
  if (lane !== deps.lanes.errors) return deps.judge.record(lane, item, error, attempts)
  if (deps.letters!.shrink(item)) return 'again'
  return deps.watch.lettersRefused(item, error, deps.stopping)
}

/** A route that may be given up has failed for as long as it says. */
function givesUp({ clock, lanes }: OpenLaneDeps, lane: Lane, { route }: LanePlan): boolean {
  if (route?.onUnavailable !== 'deadLetter' || lanes.errors === undefined || lane.failingSinceMs === undefined) return false
  return clock.monotonicMs() - lane.failingSinceMs >= route.afterMs
}
