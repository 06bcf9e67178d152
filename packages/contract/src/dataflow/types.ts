// The normal form of a flow: what every program but the reader of specs works with. Both published shapes become this one.
import type { Condition } from './condition.ts'
import type { Sink, Source } from './connectors/index.ts'
import type { FlowIdentity, SecretUse } from './field.ts'
import type { CronValues, FlowValues } from './flow-fields.ts'
import type { PatternEngine } from './patterns.ts'
import type { Problem, Warning } from './problem.ts'
import type { Route } from './route.ts'
import type { TransformConfig, TransformType } from './transforms.ts'

export type FlowKind = 'DataFlow' | 'DataFlowCron'

/** Plain data: durations in milliseconds, sizes in bytes, conditions and paths read. */
export interface Flow extends FlowValues {
  readonly kind: FlowKind
  readonly source: Source
  readonly sink: Sink
  readonly transformations: readonly Transformation[]
  readonly errors: ErrorsSink | undefined
  /** Of a DataFlowCron alone. */
  readonly cron: CronValues | undefined
  /** While there are any, the fields they stand for are absent and the flow cannot run. */
  readonly secrets: readonly SecretUse[]
}

export type Transformation = { [T in TransformType]: TransformationOf<T> }[TransformType]
export interface TransformationOf<T extends TransformType> {
  readonly type: T
  readonly config: TransformConfig<T>
  /** Absent: always. */
  readonly when: Condition | undefined
  readonly onNonJson: 'pass' | 'error'
}

export interface ErrorsSink {
  readonly sink: Sink
  readonly ackPolicy: 'afterWrite' | 'never' | 'afterMainSinkSuccess'
  readonly payload: 'full' | 'masked'
  readonly maxConsecutive: number
}

export interface NormaliseOptions extends Partial<FlowIdentity> {
  readonly kind?: FlowKind
  /** Without one, patterns of conditions are read but not tried. */
  readonly patterns?: PatternEngine
}

export interface Normalised {
  /** Present when there is no problem. */
  readonly flow: Flow | undefined
  readonly problems: readonly Problem[]
  readonly warnings: readonly Warning[]
}

/** Every route of every router, in order. */
export const routesOf = (transformations: readonly Transformation[]): Route[] =>
  transformations.flatMap((step) => (step.type === 'router' ? step.config.routes : []))

/** The sink a message goes to: that of its route, or the main one. */
export function sinkOf(flow: Pick<Flow, 'sink' | 'transformations'>, routeId: string | undefined): Sink {
  return routesOf(flow.transformations).find(({ id }) => id === routeId)?.sink ?? flow.sink
}
