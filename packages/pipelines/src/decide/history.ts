// Which old record may be removed. Pure.
import { type PromotionRecord, phaseOf } from '../objects.ts'
import type { DecideContext, Step } from './decide.ts'
import { isOpen } from './newest.ts'

const KEPT_MS = 14 * 86_400_000

/** The oldest terminal promotion beyond the history of its environment. None younger than 14 days is removed, and never one of this run. */
export function findExpiredRecord(context: DecideContext): Step | null {
  const byEnvironment = Map.groupBy(
    context.promotions.filter((promotion) => !isOpen(promotion)),
    ({ spec }) => spec.environment,
  )
  for (const promotions of byEnvironment.values()) {
    const [oldest] = promotions.toSorted(byAge)
    if (oldest !== undefined && promotions.length > context.policy.history && isRemovable(context, oldest))
      return { do: 'delete', promotion: oldest }
  }
  return null
}

const byAge = (a: PromotionRecord, b: PromotionRecord): number => a.spec.run - b.spec.run || a.spec.series - b.spec.series

const isRemovable = (context: DecideContext, promotion: PromotionRecord): boolean =>
  promotion.spec.run !== context.pipeline.status.run?.number &&
  context.nowMs - Date.parse(promotion.status.phaseSince ?? promotion.createdAt) > KEPT_MS &&
  phaseOf(promotion) !== 'Pending'
