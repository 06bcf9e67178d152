// Two conditions of a flow as its processor sees them: whether messages flow, and what is promised about repeats. Pure.
import type { Blocked, Progress } from '@brokkr/contract/dataflow/progress.ts'
import type { Capabilities } from './connectors/connector.ts'
import type { Trouble } from './flow-watch.ts'

export interface FlowingFacts {
  readonly isReady: boolean
  readonly blocked: Blocked | undefined
  readonly trouble: readonly Trouble[]
  /** Messages that stay open on purpose after their letter. */
  readonly frozen: number
  readonly open: number
  readonly redact: (text: string) => string
}

export function flowingState(facts: FlowingFacts): Progress['flowing'] {
  const { blocked, trouble, frozen, open } = facts
  if (blocked !== undefined)
    return { status: 'False', reason: 'Blocked', message: `${blocked.stage} ${blocked.connector}: ${blocked.message}` }
  const sink = trouble.find(({ where }) => where.at !== 'source' && where.at !== 'checkpoint')
  if (sink !== undefined) return unavailable('SinkUnavailable', sink, facts)
  const source = trouble.find(({ where }) => where.at === 'source')
  if (source !== undefined) return unavailable('SourceUnavailable', source, facts)
  if (!facts.isReady) return { status: 'Unknown', reason: 'NotRunning', message: 'the processor is starting or stopping' }
  const note = frozen > 0 ? `${frozen} dead-lettered messages stay open (ackPolicy never): nothing behind them is committed` : ''
  return { status: 'True', reason: open > 0 ? 'Flowing' : 'Idle', message: note }
}

const unavailable = (reason: string, { where, error }: Trouble, { redact }: FlowingFacts): Progress['flowing'] => ({
  status: 'False',
  reason,
  message: `${where.connector} ${where.at}: ${redact(error.message)}`,
})

/** The weakest promise of all sinks is that of the flow. */
export function exactlyOnceState(sinks: readonly Capabilities[]): Progress['exactlyOnce'] {
  const missing = sinks.find(({ exactlyOnce }) => exactlyOnce === 'Unavailable')
  if (missing !== undefined) return { status: 'False', reason: 'Unavailable', message: missing.reason ?? '' }
  if (sinks.some(({ exactlyOnce }) => exactlyOnce === 'AtLeastOnce')) return { status: 'False', reason: 'AtLeastOnce', message: '' }
  return { status: 'True', reason: sinks[0]?.exactlyOnce ?? 'AtLeastOnce', message: '' }
}
