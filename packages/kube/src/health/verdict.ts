// The health verdict of an object: state, reason and message. Shared by all rules. Pure.
import type { KubeObject } from '../client/object.ts'

export type HealthState = 'ready' | 'progressing' | 'degraded' | 'failing' | 'unknown'

export interface Verdict {
  state: HealthState
  /** One word in CamelCase, as in Kubernetes. */
  reason: string
  message: string
}

/** Input of a rule beside the object. */
export interface HealthContext {
  nowMs: number
  /** Pods of a workload. */
  pods?: readonly KubeObject[]
  /** Jobs of a CronJob. */
  jobs?: readonly KubeObject[]
  /** Time since which the object reports the same progress. */
  unchangedSinceMs?: number
  /** The claim's storage waits for a first consumer, and there is none. */
  waitsForConsumer?: boolean
}

export type Rule = (object: KubeObject, context: HealthContext) => Verdict

export const ready = (reason = 'Ready', message = ''): Verdict => ({ state: 'ready', reason, message })
export const progressing = (reason: string, message = ''): Verdict => ({ state: 'progressing', reason, message })
export const degraded = (reason: string, message = ''): Verdict => ({ state: 'degraded', reason, message })
export const failing = (reason: string, message = ''): Verdict => ({ state: 'failing', reason, message })
export const unknown = (reason: string, message = ''): Verdict => ({ state: 'unknown', reason, message })

/** Worst first. */
const SEVERITY: readonly HealthState[] = ['failing', 'degraded', 'progressing', 'unknown', 'ready']

/** Returns the first of the worst. */
export const worst = (verdicts: readonly Verdict[]): Verdict | undefined =>
  SEVERITY.map((state) => verdicts.find((verdict) => verdict.state === state)).find((verdict) => verdict !== undefined)
