// The answer that a promotion's state gives to the sender of an event or approval, and the wait for it.
import { isTerminal } from '@brokkr/contract/pipelines/promotion.ts'
import { type PromotionRecord, phaseOf } from '../objects.ts'
import type { HookAnswer } from './answer.ts'
import type { HooksContext } from './deps.ts'

export const FAILED_TEXT = 'the promotion failed; the reason is in the log of the controller and in the Promotion\n'

/** Null: nothing is decided yet. `isApproval`: the sender has approved, so waiting for approval is no outcome. Pure. */
export function toAnswer(promotion: PromotionRecord, isApproval: boolean): HookAnswer | null {
  const { effect, attempts } = promotion.status
  const phase = phaseOf(promotion)
  const link = toLocation(effect?.prUrl)
  if (link !== null) return { status: 201, headers: { location: link } }
  if (phase === 'Blocked' || phase === 'Failed' || phase === 'Errored') return { status: 500, body: FAILED_TEXT }
  if (phase === 'Queued' && attempts?.at(-1)?.outcome === 'failed') return { status: 500, body: FAILED_TEXT }
  if (phase === 'AwaitingApproval') return isApproval ? null : { status: 204 }
  return phase === 'Applied' || phase === 'Verifying' || isTerminal(phase) ? { status: 204 } : null
}

/** Only web addresses, in the form that a header can hold. */
function toLocation(url: string | undefined): string | null {
  const parsed = URL.parse(url ?? '')
  return parsed !== null && /^https?:$/.test(parsed.protocol) ? parsed.href : null
}

/** Looks at every change of the Pipeline or its promotions until there is an answer; 202 when the time is over. */
export async function waitForAnswer(
  context: HooksContext,
  pipelineKey: string,
  find: () => HookAnswer | null,
  signal: AbortSignal,
): Promise<HookAnswer> {
  const { promise, resolve } = Promise.withResolvers<HookAnswer>()
  const look = () => {
    const answer = find()
    if (answer !== null) resolve(answer)
  }
  const stopListening = context.records.onChange((key) => {
    if (key === pipelineKey) look()
  })
  const end = () => resolve({ status: 202 })
  const timer = context.clock.setTimer(context.settings.waitMs, end)
  signal.addEventListener('abort', end, { once: true })
  if (signal.aborted) end()
  look()
  try {
    return await promise
  } finally {
    timer.cancel()
    stopListening()
    signal.removeEventListener('abort', end)
  }
}
