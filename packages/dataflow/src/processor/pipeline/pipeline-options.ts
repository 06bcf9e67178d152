// Dependencies and options of a pipeline, and its result.
import type { OneShots } from '@brokkr/contract/dataflow/processor-spec.ts'
import type { Flow } from '@brokkr/contract/dataflow/spec/types.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Sink, SinkContext, Source, SourceContext } from '../../connectors/connector.ts'
import type { Chain } from '../chain/chain.ts'
import type { FlowCheckpoint } from '../checkpoint/checkpoint.ts'
import type { DeadLetterBuilder } from '../dead-letter/dead-letter.ts'
import type { FlowSettings } from '../flow-settings.ts'
import type { Redact } from '../secret-values.ts'
import type { SinkPlan } from '../sinks/sink-plans.ts'
import type { FlowMetrics } from '../status/flow-metrics.ts'
import type { Tap } from '../tap/tap.ts'

export interface PipelineDeps {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: FlowMetrics
  openSource(context: SourceContext): Source
  openSink(plan: SinkPlan, context: SinkContext): Sink
  /** Absent: positions and counters are not stored between two processes. */
  readonly checkpoint: FlowCheckpoint | undefined
  readonly redact: Redact
  /** Samples of records as they leave the chain. */
  readonly tap?: Pick<Tap, 'offer'> | undefined
  /** A replay bypasses the chain for records that a sink rejected, and updates the dead letter of a message that fails again. */
  readonly replay?: { chain(chain: Chain): Chain; deadLetters(builder: DeadLetterBuilder): DeadLetterBuilder } | undefined
}

export interface PipelineOptions {
  readonly flow: Flow
  readonly identity: { readonly namespace: string; readonly name: string }
  readonly specHash: string
  readonly oneShots: OneShots
  readonly isBounded: boolean
  readonly allowLoopback: boolean
  readonly settings: FlowSettings
}

/** Exit codes: 0 ended, 1 failed, 3 fenced. */
export interface FlowEnd {
  readonly exitCode: 0 | 1 | 3
  readonly reason: string
}

export const flowKey = ({ identity }: PipelineOptions): string => `${identity.namespace}/${identity.name}`
