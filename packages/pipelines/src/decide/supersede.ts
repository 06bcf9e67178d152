// Which open promotion a newer one replaces: the latest intent wins. One per pass. Pure.
import type { Run } from '@brokkr/contract/pipelines/pipeline-status.ts'
import type { PromotionRecord } from '../objects.ts'
import { hasLivingEffect } from './advance.ts'
import type { DecideContext, Step } from './decide.ts'
import { isOpen, newestOf } from './newest.ts'
import { promotionName } from './promotion-key.ts'
import { enterPhase } from './promotion-status.ts'

export function findSuperseded(context: DecideContext, run: Run | undefined): Step | null {
  if (run === undefined || context.isSuspended) return null
  const outdated = context.promotions
    .filter((promotion) => isOpen(promotion) && !isNewest(context, run, promotion))
    .toSorted((a, b) => a.spec.run - b.spec.run || a.spec.series - b.spec.series)[0]
  return outdated === undefined ? null : supersede(context, run, outdated)
}

const isNewest = (context: DecideContext, run: Run, promotion: PromotionRecord): boolean =>
  promotion.spec.run >= run.number && newestOf(context.promotions, promotion.spec.run, promotion.spec.environment) === promotion

/** Under Update the newer promotion takes over branch and pull request; under Close and Queue they are closed first. */
function supersede(context: DecideContext, run: Run, promotion: PromotionRecord): Step {
  const { environment } = promotion.spec
  const newer = newestOf(context.promotions, run.number, environment)
  const identity = { pipelineUid: context.pipeline.uid, environment, run: run.number, series: 1 }
  const supersededBy = newer?.name ?? promotionName(context.pipeline.name, identity)
  const message = `superseded by run ${run.number} (${run.revision})`
  const status = enterPhase(promotion.status, 'Superseded', context.nowMs, { reason: 'Superseded', message, more: { supersededBy } })
  const isClosed = promotion.spec.supersede !== 'Update' && hasLivingEffect(promotion, context.hasObserver(promotion.spec.strategy))
  return { do: 'supersede', promotion, status, withdraw: isClosed ? `Superseded by run ${run.number}: ${run.revision}.` : null }
}
