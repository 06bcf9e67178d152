// An object stands where a stack wants to put one: is it ours, may it be taken over, or must it be left alone? Pure.
import { ID_LABEL, PART_OF_LABEL } from '@brokkr/kube/applyset.ts'
import { describeRef, type KubeObject, refOf } from '@brokkr/kube/object.ts'
import { ADOPT, OWNER_LABEL, STACK_LABEL } from './marks.ts'
import type { Problem } from './problem.ts'

export interface OwnershipRules {
  readonly agentId: string
  readonly stackId: string
  /** unowned: an object without any mark may be adopted · any: also one of another tool · never. */
  readonly adoption: 'unowned' | 'never' | 'any'
  /** Agents in whose place we stand: what they marked is ours. */
  readonly adoptFrom: readonly string[]
  /** A stack of ours that is on its way out: what it has may be taken over. */
  readonly isLeaving?: ((stackId: string) => boolean) | undefined
}
export type Ownership = { readonly is: 'ours' } | { readonly is: 'adopted' } | { readonly is: 'foreign'; readonly problem: Problem }

/** `wanted` carries the manifest's own wish to adopt. */
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
    `${what} exists already and ${isMarked ? 'belongs to somebody else' : 'is not ours'}: ${advice(asks, isMarked)}`,
  )

  function foreign(code: 'owned_by_other_stack' | 'foreign_object', message: string): Ownership {
    return { is: 'foreign', problem: { phase: 'failed', code, message, ref: refOf(wanted) } }
  }
}

const advice = (asks: boolean, isMarked: boolean): string => {
  if (!asks) return `choose another name, or set ${ADOPT}: "true" to take it over`
  return isMarked ? 'the agent adopts such objects only with adoption = any' : 'the agent adopts nothing (adoption = never)'
}
