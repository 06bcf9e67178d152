// What binds a plan: its content, the newest object of its stack and the targets. Pure.
import { createHash } from 'node:crypto'

export interface PlanBinding {
  readonly content_checksum: string
  readonly is_deletion_marker: boolean
  readonly base_sequence_id: number | null
  readonly target_digest: string
}

/** SHA-256 over the sorted ids of the targeted agents. */
export const digestTargets = (agentIds: readonly string[]): string =>
  createHash('sha256')
    .update([...agentIds].toSorted().join('\n'))
    .digest('hex')

export type PlanDifference = 'content' | 'targets' | 'head' | 'expired'

/** What moved since the plan was made; empty if the submission is what was planned. */
export function findPlanDifferences(plan: PlanBinding & { readonly is_expired: boolean }, now: PlanBinding): PlanDifference[] {
  const isOtherContent = plan.content_checksum !== now.content_checksum || plan.is_deletion_marker !== now.is_deletion_marker
  return [
    ...(plan.is_expired ? (['expired'] as const) : []),
    ...(isOtherContent ? (['content'] as const) : []),
    ...(plan.base_sequence_id === now.base_sequence_id ? [] : (['head'] as const)),
    ...(plan.target_digest === now.target_digest ? [] : (['targets'] as const)),
  ]
}

/** Encryption contexts, which bind the ciphertext to its row. */
export const toPlanContext = (id: string) => ({ table: 'plans', column: 'content_sealed', id })
export const toChangesContext = (id: string) => ({ table: 'plan_results', column: 'changes_sealed', id })
