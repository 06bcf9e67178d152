// How an object is: one state, one word why, one sentence. Shared by all rules. Pure.
import type { KubeObject } from '../object.ts'

export type HealthState = 'ready' | 'progressing' | 'degraded' | 'failing' | 'unknown'

export interface Verdict {
  state: HealthState
  /** One word in CamelCase, as Kubernetes has it. */
  reason: string
  message: string
}

/** What a rule may know beside the object itself. */
export interface HealthContext {
  nowMs: number
  /** Pods that belong to a workload. */
  pods?: readonly KubeObject[]
  /** Jobs that belong to a CronJob. */
  jobs?: readonly KubeObject[]
  /** Since when the object says the same while it progresses. */
  unchangedSinceMs?: number
  /** The claim's storage waits for a first pod, and there is none. */
  waitsForConsumer?: boolean
}

export type Rule = (object: KubeObject, context: HealthContext) => Verdict

export const ready = (reason = 'Ready', message = ''): Verdict => ({ state: 'ready', reason, message })
export const progressing = (reason: string, message = ''): Verdict => ({ state: 'progressing', reason, message })
export const degraded = (reason: string, message = ''): Verdict => ({ state: 'degraded', reason, message })
export const failing = (reason: string, message = ''): Verdict => ({ state: 'failing', reason, message })
export const unknown = (reason: string, message = ''): Verdict => ({ state: 'unknown', reason, message })

/** Worst first. */
export const SEVERITY: readonly HealthState[] = ['failing', 'degraded', 'progressing', 'unknown', 'ready']

/** The first of the worst. */
export const worst = (verdicts: readonly Verdict[]): Verdict | undefined =>
  SEVERITY.map((state) => verdicts.find((verdict) => verdict.state === state)).find((verdict) => verdict !== undefined)
