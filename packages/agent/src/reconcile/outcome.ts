// What an attempt on a stack came to: the phase, and what happened to each object. The same value feeds status, events, metrics
// and the log.
import type { ApplyOutcome } from '@brokkr/kube/apply-object.ts'
import { groupOf, type KubeObject, type ObjectRef, refOf, versionOf } from '@brokkr/kube/object.ts'
import type { PruneOutcome } from '@brokkr/kube/prune.ts'
import type { Problem } from './problem.ts'
import type { StackState } from './stack-parents.ts'
import type { FieldChange } from './verify.ts'

export type Operation = 'created' | 'updated' | 'unchanged' | 'deleted' | 'failed' | 'held'
export interface TouchedObject {
  readonly group: string
  readonly version: string
  readonly kind: string
  readonly namespace?: string
  readonly name: string
  readonly operation: Operation
  readonly error?: string
}

export interface DriftFound {
  readonly changes: readonly FieldChange[]
  readonly isHealed: boolean
}

export type Outcome =
  | {
      readonly phase: 'applied'
      readonly objects: readonly TouchedObject[]
      readonly event: StackState['event']
      /** The revision came into force in this attempt. */
      readonly isNew: boolean
      /** Places that the revision changed in members that stay. */
      readonly changes: readonly FieldChange[]
      /** What another hand had changed; null: nothing. */
      readonly drift: DriftFound | null
      /** Why nothing was deleted although the revision drops it; null: nothing waits. */
      readonly held: string | null
      /** What was taken otherwise than it was written: marks of ours in the manifest, and what the API server warned of. */
      readonly warnings: readonly string[]
    }
  | { readonly phase: 'failed' | 'pending'; readonly objects: readonly TouchedObject[]; readonly problem: Problem }
  /** `last` is the revision that was in force; null: nothing of the stack was known here. */
  | { readonly phase: 'removed'; readonly objects: readonly TouchedObject[]; readonly last: StackState | null }

export const stopped = (problem: Problem, objects: readonly TouchedObject[] = []): Outcome => ({ phase: problem.phase, objects, problem })

const operations = { created: 'created', configured: 'updated', unchanged: 'unchanged', failed: 'failed', skipped: 'held' } as const

export const touchedByApply = ({ ref, action, failure }: ApplyOutcome): TouchedObject => touched(ref, operations[action], failure?.code)

export function touchedByPrune({ ref, action, failure }: PruneOutcome): TouchedObject {
  const operation = action === 'deleted' || action === 'going' ? 'deleted' : action === 'failed' ? 'failed' : 'held'
  return touched(ref, operation, failure?.code)
}

/** Left to stand by the guard. */
export const touchedHeld = (object: KubeObject): TouchedObject => touched(refOf(object), 'held')

function touched({ apiVersion, kind, namespace, name }: ObjectRef, operation: Operation, error?: string): TouchedObject {
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
