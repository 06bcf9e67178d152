// Conditions that the processor reports: whether messages flow, whether the flow is stalled, and which delivery guarantee holds. Pure.
import type { Blocked, Progress } from '@brokkr/contract/dataflow/progress.ts'
import type { Capabilities } from '../../connectors/connector.ts'
import type { Outage } from './flow-status.ts'

export interface FlowingInputs {
  readonly isReady: boolean
  readonly blocked: Blocked | undefined
  readonly outages: readonly Outage[]
  /** Dead-lettered messages that stay in flight because of ackPolicy never. */
  readonly frozenMessages: number
  readonly open: number
  /** Reason of a stall; undefined without one. */
  readonly stall: string | undefined
  readonly redact: (text: string) => string
}

export function toFlowingCondition(inputs: FlowingInputs): Progress['flowing'] {
  const { blocked, outages, frozenMessages, open, stall } = inputs
  if (blocked !== undefined)
    return { status: 'False', reason: 'Blocked', message: `${blocked.stage} ${blocked.connector}: ${blocked.message}` }
  const sink = outages.find(({ where }) => where.at !== 'source' && where.at !== 'checkpoint')
  if (sink !== undefined) return toUnavailable('SinkUnavailable', sink, inputs)
  const source = outages.find(({ where }) => where.at === 'source')
  if (source !== undefined) return toUnavailable('SourceUnavailable', source, inputs)
  if (!inputs.isReady) return { status: 'Unknown', reason: 'NotRunning', message: 'the processor is starting or stopping' }
  const note =
    frozenMessages > 0 ? `${frozenMessages} dead-lettered messages stay open (ackPolicy never): nothing behind them is committed` : ''
  if (stall !== undefined) return { status: 'False', reason: 'Stalled', message: note === '' ? stall : `${stall}; ${note}` }
  return { status: 'True', reason: open > 0 ? 'Flowing' : 'Idle', message: note }
}

const toUnavailable = (reason: string, { where, error }: Outage, { redact }: FlowingInputs): Progress['flowing'] => ({
  status: 'False',
  reason,
  message: `${where.connector} ${where.at}: ${redact(error.message)}`,
})

/** The weakest guarantee of all sinks holds for the flow. */
export function toExactlyOnceCondition(sinks: readonly Capabilities[]): Progress['exactlyOnce'] {
  const unavailable = sinks.find(({ exactlyOnce }) => exactlyOnce === 'Unavailable')
  if (unavailable !== undefined) return { status: 'False', reason: 'Unavailable', message: unavailable.reason ?? '' }
  const atLeastOnce = sinks.find(({ exactlyOnce }) => exactlyOnce === 'AtLeastOnce')
  if (atLeastOnce !== undefined) return { status: 'False', reason: 'AtLeastOnce', message: atLeastOnce.reason ?? '' }
  return { status: 'True', reason: sinks[0]?.exactlyOnce ?? 'AtLeastOnce', message: '' }
}

export interface StallInputs {
  readonly nowMs: number
  readonly stalledAfterMs: number
  /** Time of the last read while no other can follow: the budget is spent, or the batch is not yet in the sink queues. */
  readonly inputWaitsSinceMs: number | undefined
  /** Time of the last outcome or acknowledged record. */
  readonly lastOutputMs: number
  readonly sinks: readonly { readonly name: string; readonly writingSinceMs: number | undefined }[]
}

/** A flow is stalled if input waits and no record was written for `stalledAfterMs`, although no part reports an error. A batch that
 *  waits for its timer or for more input is no stall. Returns the reason. */
export function findStall({ nowMs, stalledAfterMs, inputWaitsSinceMs, lastOutputMs, sinks }: StallInputs): string | undefined {
  const isOver = (sinceMs: number | undefined): sinceMs is number => sinceMs !== undefined && nowMs - sinceMs >= stalledAfterMs
  const seconds = (sinceMs: number): number => Math.round((nowMs - sinceMs) / 1000)
  const sink = sinks.find(({ writingSinceMs }) => isOver(writingSinceMs))
  if (sink !== undefined) return `sink ${sink.name} has acknowledged no record of its batch for ${seconds(sink.writingSinceMs!)} s`
  const sinceMs = inputWaitsSinceMs === undefined ? undefined : Math.max(inputWaitsSinceMs, lastOutputMs)
  return isOver(sinceMs) ? `input waits and nothing was written for ${seconds(sinceMs)} s` : undefined
}
