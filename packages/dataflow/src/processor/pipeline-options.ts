// What a pipeline is given: its tools, the flow with the orders it came with; and how it ends.
import type { OneShots } from '@brokkr/contract/dataflow/processor-spec.ts'
import type { Flow } from '@brokkr/contract/dataflow/types.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { Chain } from './chain.ts'
import type { FlowCheckpoint } from './checkpoint.ts'
import type { Sink, SinkContext, Source, SourceContext } from './connectors/connector.ts'
import type { LetterMaker } from './dead-letter.ts'
import type { LanePlan } from './flow-lanes.ts'
import type { FlowSettings } from './flow-settings.ts'
import type { FlowMetrics } from './metrics.ts'

export interface PipelineDeps {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: FlowMetrics
  openSource(context: SourceContext): Source
  openSink(plan: LanePlan, context: SinkContext): Sink
  /** Absent: nothing is kept between two processes. */
  readonly checkpoint: FlowCheckpoint | undefined
  readonly redact: (text: string) => string
  /** A replay of letters runs another chain in part, and what fails again has a letter already. */
  readonly replay?: { chain(chain: Chain): Chain; letters(maker: LetterMaker): LetterMaker } | undefined
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
