// The one way in which a decision is stored: appended to status.approvals by CAS. Hooks, CLI and console end here; the leader reads it.
import type { Decision } from '@brokkr/contract/pipelines/promotion.ts'
import type { PromotionRecord } from '../objects.ts'

export interface NewDecision {
  readonly subject: string
  readonly groups: readonly string[]
  readonly decision: Decision['decision']
  /** Key that the subject saw: it names run, environment and revision, so an old button releases nothing newer. */
  readonly key: string
  readonly message: string | undefined
  readonly via: string
}

/** `stored` is also the answer to a repeated decision. `not-waiting`: the key is not that of a promotion that awaits approval. */
export type DecisionResult =
  | { readonly outcome: 'stored'; readonly promotion: PromotionRecord; readonly approvals: number; readonly required: number }
  | { readonly outcome: 'not-waiting'; readonly currentKey: string | null }
  | { readonly outcome: 'forbidden'; readonly reason: string }

export interface Decisions {
  /** Reads the promotion directly, checks it, appends or replaces the subject's entry; on a version conflict it reads again. */
  record(at: { namespace: string; name: string }, decision: NewDecision, signal: AbortSignal): Promise<DecisionResult>
}
