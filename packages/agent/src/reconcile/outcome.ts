// Result of an attempt: the phase, and the operation on each object. Used for status, events, metrics and log.
import { type ApplyOutcome, groupOf, type KubeObject, type ObjectRef, type PruneOutcome, refOf, versionOf } from '@brokkr/kube'
import type { FieldChange } from './drift/detect-drift.ts'
import type { Problem } from './problem.ts'
import type { StackState } from './stack-parents.ts'

export type Operation = 'created' | 'updated' | 'unchanged' | 'deleted' | 'failed' | 'held'
export interface ObjectOutcome {
  readonly group: string
  readonly version: string
  readonly kind: string
  readonly namespace?: string
  readonly name: string
  readonly operation: Operation
  readonly error?: string
}

export interface DriftResult {
  readonly changes: readonly FieldChange[]
  readonly isHealed: boolean
}

export type Outcome =
  | {
      readonly phase: 'applied'
      readonly objects: readonly ObjectOutcome[]
      readonly event: StackState['event']
      /** The deployment object was applied by this attempt for the first time. */
      readonly isNew: boolean
      /** Paths that the deployment object changed in existing members. */
      readonly changes: readonly FieldChange[]
      /** Changes by other writers; null: none. */
      readonly drift: DriftResult | null
      /** Reason why the prune guard holds deletions; null: none are held. */
      readonly held: string | null
      /** Reserved metadata in the manifest that was overwritten, and warnings of the API server. */
      readonly warnings: readonly string[]
    }
  | { readonly phase: 'failed' | 'pending'; readonly objects: readonly ObjectOutcome[]; readonly problem: Problem }
  /** `last` is the applied object before the removal; null: none was known. */
  | { readonly phase: 'removed'; readonly objects: readonly ObjectOutcome[]; readonly last: StackState | null }

export const toProblemOutcome = (problem: Problem, objects: readonly ObjectOutcome[] = []): Outcome => ({
  phase: problem.phase,
  objects,
  problem,
})

const operations = { created: 'created', configured: 'updated', unchanged: 'unchanged', failed: 'failed', skipped: 'held' } as const

export const toApplyOutcome = ({ ref, action, failure }: ApplyOutcome): ObjectOutcome => touched(ref, operations[action], failure?.code)

export function toPruneOutcome({ ref, action, failure }: PruneOutcome): ObjectOutcome {
  const operation = action === 'deleted' || action === 'going' ? 'deleted' : action === 'failed' ? 'failed' : 'held'
  return touched(ref, operation, failure?.code)
}

/** Kept by the prune guard. */
export const toHeldOutcome = (object: KubeObject): ObjectOutcome => touched(refOf(object), 'held')

function touched({ apiVersion, kind, namespace, name }: ObjectRef, operation: Operation, error?: string): ObjectOutcome {
  return {
    group: groupOf(apiVersion),
    version: versionOf(apiVersion),
    kind,
    ...(namespace ? { namespace } : {}),
    name,
    operation,
    ...(error === undefined ? {} : { error }),
  }
}
