// Which promotion counts for an environment. Pure.
import { isTerminal } from '@brokkr/contract/pipelines/promotion.ts'
import { type PromotionRecord, phaseOf } from '../objects.ts'
import { hasLeft, isIndefinite, type ObservedEnvironment } from './observed.ts'

export const isOpen = (promotion: PromotionRecord): boolean => !isTerminal(phaseOf(promotion))

/** No attempt is under way and none has made an effect. */
export const hasNotBegun = (promotion: PromotionRecord): boolean =>
  ['Pending', 'AwaitingApproval', 'Queued', 'Blocked'].includes(phaseOf(promotion)) && promotion.status.effect?.branch === undefined

/** The promotion with the highest series of a run and environment. */
export function newestOf(promotions: readonly PromotionRecord[], run: number, environment: string): PromotionRecord | null {
  const own = promotions.filter(({ spec }) => spec.run === run && spec.environment === environment)
  return own.toSorted((a, b) => b.spec.series - a.spec.series)[0] ?? null
}

export function lastSucceeded(promotions: readonly PromotionRecord[], environment: string): PromotionRecord | null {
  const own = promotions.filter((promotion) => promotion.spec.environment === environment && phaseOf(promotion) === 'Succeeded')
  return own.toSorted((a, b) => b.spec.run - a.spec.run || b.spec.series - a.spec.series)[0] ?? null
}

/** The targets left what their last Succeeded promotion brought: a hotfix was placed there directly. */
export function isDiverged(promotions: readonly PromotionRecord[], environment: ObservedEnvironment): boolean {
  const last = lastSucceeded(promotions, environment.name)
  if (last === null || isIndefinite(environment)) return false
  const isBusy = promotions.some((promotion) => promotion.spec.environment === environment.name && isOpen(promotion))
  return !isBusy && hasLeft(environment, last.spec.revision)
}
