// What can be moved on the board, and to which column: drag, button and key do the same. Pure.
import type { PipelineLane, PromotionCard } from './promotion-model.ts'

export type Move =
  /** A card that waits for approval, into its environment. */
  | { readonly kind: 'approve'; readonly card: PromotionCard }
  /** The revision of an environment, into the next one. */
  | { readonly kind: 'promote'; readonly lane: PipelineLane; readonly revision: string; readonly to: string }

/** The move of the revision that an environment runs; a text says why there is none. */
export function findPromotion(lane: PipelineLane, environment: string, cards: readonly PromotionCard[]): Move | string {
  const index = lane.environments.findIndex(({ name }) => name === environment)
  const [from, to] = [lane.environments[index], lane.environments[index + 1]]
  if (from === undefined || to === undefined) return 'it is the last environment'
  if (from.revision === null) return `${from.name} runs no known revision`
  if (from.revision === to.revision) return `${to.name} runs this revision`
  if (lane.isHeld) return 'the pipeline is held'
  const open = cards.find((card) => card.isOpen && card.environment === to.name && card.revision === from.revision)
  if (open !== undefined) return `a promotion to ${to.name} is ${open.phase}`
  return { kind: 'promote', lane, revision: from.revision, to: to.name }
}

export const isDecidable = (card: Pick<PromotionCard, 'phase'>): boolean => card.phase === 'AwaitingApproval'

/** The column that takes a move. */
const columnOf = (move: Move): string => (move.kind === 'approve' ? move.card.environment : move.to)

/** Whether a move belongs to this pipeline and column. */
export function isTarget(move: Move | null, lane: Pick<PipelineLane, 'name' | 'namespace'>, environment: string): boolean {
  if (move === null || columnOf(move) !== environment) return false
  const of = move.kind === 'approve' ? { name: move.card.pipeline, namespace: move.card.namespace } : move.lane
  return of.name === lane.name && of.namespace === lane.namespace
}
