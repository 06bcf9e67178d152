// Decides about an existing object that a stack wants to write: owned, adoptable or foreign. Pure.
import { describeRef, ID_LABEL, type KubeObject, PART_OF_LABEL, refOf } from '@brokkr/kube'
import type { Problem } from '../problem.ts'
import { ADOPT, OWNER_LABEL, STACK_LABEL } from './ownership-metadata.ts'

export interface OwnershipRules {
  readonly agentId: string
  readonly stackId: string
  /** unowned: objects without ownership metadata may be adopted. any: also those of other tools. never: none. */
  readonly adoption: 'unowned' | 'never' | 'any'
  /** Former agents of this cluster whose objects count as owned. */
  readonly adoptFrom: readonly string[]
  /** True for a stack of this agent that is being removed: its objects may be taken over. */
  readonly isLeaving?: ((stackId: string) => boolean) | undefined
}
export type Ownership = { readonly is: 'ours' } | { readonly is: 'adopted' } | { readonly is: 'foreign'; readonly problem: Problem }

/** `wanted` carries the adopt annotation of the manifest. */
export function judgeOwnership(live: KubeObject, wanted: KubeObject, rules: OwnershipRules): Ownership {
  const { labels = {}, annotations = {} } = live.metadata
  const asks = wanted.metadata.annotations?.[ADOPT] === 'true'
  const owner = labels[OWNER_LABEL] ?? annotations[OWNER_LABEL]
  const stack = labels[STACK_LABEL] ?? annotations['k8s.brokkr.io/stack']
  const isOurs = owner !== undefined && (owner === rules.agentId || rules.adoptFrom.includes(owner))
  if (isOurs && stack === rules.stackId) return { is: 'ours' }
  const what = describeRef(refOf(wanted))
  if (isOurs)
    return asks || (stack !== undefined && rules.isLeaving?.(stack) === true)
      ? { is: 'adopted' }
      : foreign(
          'owned_by_other_stack',
          `${what} belongs to stack ${stack ?? 'unknown'}: choose another name, or set ${ADOPT}: "true" to take it over`,
        )
  const isMarked = owner !== undefined || stack !== undefined || PART_OF_LABEL in labels || ID_LABEL in labels
  if (asks && (isMarked ? rules.adoption === 'any' : rules.adoption !== 'never')) return { is: 'adopted' }
  return foreign(
    'foreign_object',
    `${what} exists already and ${isMarked ? 'belongs to another agent or tool' : 'was not created by this agent'}: ${advice(asks, isMarked)}`,
  )

  function foreign(code: 'owned_by_other_stack' | 'foreign_object', message: string): Ownership {
    return { is: 'foreign', problem: { phase: 'failed', code, message, ref: refOf(wanted) } }
  }
}

const advice = (asks: boolean, isMarked: boolean): string => {
  if (!asks) return `choose another name, or set ${ADOPT}: "true" to take it over`
  return isMarked ? 'the agent adopts such objects only with adoption = any' : 'the agent adopts nothing (adoption = never)'
}
