// Whether the recorded decisions allow a promotion. Pure.
import type { Cause } from '@brokkr/contract/pipelines/fields.ts'
import type { Decision } from '@brokkr/contract/pipelines/promotion.ts'
import type { Approval } from '@brokkr/contract/pipelines/strategy.ts'

export interface Gate {
  readonly state: 'open' | 'waiting' | 'rejected'
  /** Distinct allowed approvers so far. */
  readonly approvals: number
  readonly required: number
  /** First subject that rejected. */
  readonly rejectedBy: string | null
}

/** A reject by an allowed subject is final. Decisions that name another key are those of another promotion and do not count. */
export function evaluateGate(input: {
  readonly approval: Approval
  readonly decisions: readonly Decision[]
  readonly key: string
  readonly cause: Cause
}): Gate {
  const counted = input.decisions.filter((decision) => decision.key === input.key && isAllowedApprover(input.approval, decision))
  const required = input.approval.minApprovals ?? 1
  const reject = counted.find(({ decision }) => decision === 'reject')
  const approvers = new Set(
    counted.filter((each) => each.decision === 'approve' && !isForbiddenInitiator(input, each)).map(({ subject }) => subject),
  )
  const facts = { approvals: approvers.size, required }
  if (reject !== undefined) return { state: 'rejected', ...facts, rejectedBy: reject.subject }
  return { state: approvers.size >= required ? 'open' : 'waiting', ...facts, rejectedBy: null }
}

/** An empty list allows every subject that may approve at all; a `group:` entry allows its members. */
export function isAllowedApprover(approval: Approval, decision: Pick<Decision, 'subject' | 'groups'>): boolean {
  const approvers = approval.approvers ?? []
  if (approvers.length === 0) return true
  return approvers.includes(decision.subject) || (decision.groups ?? []).some((group) => approvers.includes(`group:${group}`))
}

function isForbiddenInitiator(input: { approval: Approval; cause: Cause }, decision: Decision): boolean {
  return input.approval.forbidInitiator !== false && input.cause.actor === decision.subject
}
