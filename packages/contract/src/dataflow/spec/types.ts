// Normalized form of a flow, used by all programs after `normalize`. Both published shapes become this form.

import type { Sink, Source } from '../connectors/index.ts'
import type { FlowIdentity, SecretUse } from '../fields/field.ts'
import type { Problem, Warning } from '../fields/problem.ts'
import type { Condition } from '../language/condition.ts'
import type { PatternEngine } from '../language/patterns.ts'
import type { CronValues, FlowValues } from './flow-fields.ts'
import type { Route } from './route.ts'
import type { TransformConfig, TransformType } from './transforms.ts'

export type FlowKind = 'DataFlow' | 'DataFlowCron'

/** Plain data: durations in milliseconds, sizes in bytes, parsed conditions and paths. */
export interface Flow extends FlowValues {
  readonly kind: FlowKind
  readonly source: Source
  readonly sink: Sink
  readonly transformations: readonly Transformation[]
  readonly errors: ErrorsSink | undefined
  /** Only for DataFlowCron. */
  readonly cron: CronValues | undefined
  /** While there are unresolved secrets, their fields are absent and the flow cannot run. */
  readonly secrets: readonly SecretUse[]
}

export type Transformation = { [T in TransformType]: TransformationOf<T> }[TransformType]
export interface TransformationOf<T extends TransformType> {
  readonly type: T
  readonly config: TransformConfig<T>
  /** Absent: always true. */
  readonly when: Condition | undefined
  readonly onNonJson: 'pass' | 'error'
}

export interface ErrorsSink {
  readonly sink: Sink
  readonly ackPolicy: 'afterWrite' | 'never' | 'afterMainSinkSuccess'
  readonly payload: 'full' | 'masked'
  readonly maxConsecutive: number
}

export interface NormalizeOptions extends Partial<FlowIdentity> {
  readonly kind?: FlowKind
  /** Without an engine, patterns of conditions are parsed but not compiled. */
  readonly patterns?: PatternEngine
}

export interface NormalizeResult {
  /** Present if there is no problem. */
  readonly flow: Flow | undefined
  readonly problems: readonly Problem[]
  readonly warnings: readonly Warning[]
}

/** All routes of all routers, in order. */
export const listRoutes = (transformations: readonly Transformation[]): Route[] =>
  transformations.flatMap((step) => (step.type === 'router' ? step.config.routes : []))

/** The sink of a message: that of its route, or the main sink. */
export function findSink(flow: Pick<Flow, 'sink' | 'transformations'>, routeId: string | undefined): Sink {
  return listRoutes(flow.transformations).find(({ id }) => id === routeId)?.sink ?? flow.sink
}
