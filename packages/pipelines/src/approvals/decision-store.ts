// Appends a decision to a promotion by CAS: one entry per subject, replaced until the gate opens.
import { FIELD_MANAGER, PROMOTION, PROMOTION_LABELS } from '@brokkr/contract/pipelines/fields.ts'
import type { Decision } from '@brokkr/contract/pipelines/promotion.ts'
import { hasReason, type Kube, timeText } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { evaluateGate, type Gate, isAllowedApprover } from '../decide/approval-gate.ts'
import { isOver } from '../decide/policy.ts'
import { toLabelValue } from '../decide/promotion-key.ts'
import { type PromotionRecord, phaseOf, promotionRef, toPromotionRecord } from '../objects.ts'
import type { DecisionResult, Decisions, NewDecision } from './decisions.ts'

const CONFLICTS_MAX = 8
const DECISIONS_MAX = 200

export class DecisionStore implements Decisions {
  readonly #kube: Kube
  readonly #clock: Clock

  constructor(deps: { kube: Kube; clock: Clock }) {
    this.#kube = deps.kube
    this.#clock = deps.clock
  }

  async record(at: { namespace: string; name: string }, decision: NewDecision, signal: AbortSignal): Promise<DecisionResult> {
    for (let conflicts = 0; ; conflicts++) {
      const object = await this.#kube.find(promotionRef(at), { signal })
      const promotion = object === undefined ? null : toPromotionRecord(object)
      if (promotion === null) return { outcome: 'not-waiting', currentKey: null }
      const change = addDecision(promotion, decision, this.#clock.now())
      if (change.do === 'forbid') return { outcome: 'forbidden', reason: change.reason }
      if (change.do === 'refuse') return { outcome: 'not-waiting', currentKey: await this.#findCurrentKey(promotion, signal) }
      if (change.do === 'keep') return toStored(promotion)
      try {
        return toStored(await this.#write(promotion, change.approvals, signal))
      } catch (error) {
        if (!hasReason(error, 'Conflict') || conflicts >= CONFLICTS_MAX) throw error
      }
    }
  }

  async #write(promotion: PromotionRecord, approvals: readonly Decision[], signal: AbortSignal): Promise<PromotionRecord> {
    const body = { metadata: { resourceVersion: promotion.resourceVersion }, status: { approvals } }
    const options = { subresource: 'status', fieldManager: FIELD_MANAGER, signal }
    return toPromotionRecord(await this.#kube.patch(promotionRef(promotion), { type: 'merge', body }, options)) ?? promotion
  }

  /** Key of the promotion that waits now in the same environment. */
  async #findCurrentKey({ namespace, spec }: PromotionRecord, signal: AbortSignal): Promise<string | null> {
    const labelSelector = `${PROMOTION_LABELS.pipeline}=${toLabelValue(spec.pipelineRef.name)}`
    const { items } = await this.#kube.list(PROMOTION, { namespace, labelSelector, signal })
    const waiting = items
      .flatMap((item) => toPromotionRecord(item) ?? [])
      .filter((each) => each.spec.pipelineRef.uid === spec.pipelineRef.uid && each.spec.environment === spec.environment)
      .filter((each) => phaseOf(each) === 'AwaitingApproval')
    return waiting.toSorted((a, b) => b.spec.run - a.spec.run || b.spec.series - a.spec.series)[0]?.spec.key ?? null
  }
}

export type DecisionChange =
  | { readonly do: 'write'; readonly approvals: readonly Decision[] }
  /** The subject has decided so before. */
  | { readonly do: 'keep' }
  /** The promotion does not wait for this decision. */
  | { readonly do: 'refuse' }
  | { readonly do: 'forbid'; readonly reason: string }

/** Pure. A reject is final; an approval may be replaced until the gate opens or the deadline is over. */
export function addDecision(promotion: PromotionRecord, decision: NewDecision, nowMs: number): DecisionChange {
  const { spec, status } = promotion
  const { approval = {} } = spec
  if (decision.key !== spec.key) return { do: 'refuse' }
  const { subject, groups, message, via, key } = decision
  const approvals = status.approvals ?? []
  const before = approvals.find((each) => each.subject === subject)
  if (before?.decision === decision.decision && before.key === key) return { do: 'keep' }
  const isWaiting = phaseOf(promotion) === 'AwaitingApproval' && gateOf(promotion).state === 'waiting'
  if (!isWaiting || isOver(status.phaseSince, approval.deadline, nowMs)) return { do: 'refuse' }
  const entry: Decision = {
    subject,
    ...(groups.length === 0 ? {} : { groups: [...groups] }),
    decision: decision.decision,
    at: timeText(nowMs),
    ...(message === undefined ? {} : { message }),
    via,
    key,
  }
  if (!isAllowedApprover(approval, entry)) return { do: 'forbid', reason: `${subject} is not an approver of ${spec.environment}` }
  if (decision.decision === 'approve' && approval.forbidInitiator !== false && spec.cause.actor === subject)
    return { do: 'forbid', reason: `${subject} started the run and may not approve it` }
  if (before === undefined && approvals.length >= DECISIONS_MAX) return { do: 'forbid', reason: 'the promotion has too many decisions' }
  return { do: 'write', approvals: [...approvals.filter((each) => each !== before), entry] }
}

const gateOf = ({ spec, status }: PromotionRecord): Gate =>
  evaluateGate({ approval: spec.approval ?? {}, decisions: status.approvals ?? [], key: spec.key, cause: spec.cause })

function toStored(promotion: PromotionRecord): DecisionResult {
  const { approvals, required } = gateOf(promotion)
  return { outcome: 'stored', promotion, approvals, required }
}
