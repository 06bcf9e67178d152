// Which kind of order is carried out how, within what is left of its claim.
import { failureOf } from '@brokkr/kube/failure.ts'
import { readObjects } from '../reconcile/desired.ts'
import { maskText } from '../reconcile/mask.ts'
import { isRetryable } from './apply-order.ts'
import { carryOutBuild } from './build.ts'
import { carryOutCustom } from './custom.ts'
import { budgetMs, failed, type Order, type OrderDeps, type OrderResult } from './order.ts'

const kinds: Readonly<Record<string, (deps: OrderDeps, order: Order, signal: AbortSignal) => Promise<OrderResult>>> = {
  build: carryOutBuild,
  custom: carryOutCustom,
}

/** Throws only the reason of `signal`: then nobody knows how it would have ended. */
export async function carryOutOrder(deps: OrderDeps, order: Order, types: readonly string[], signal: AbortSignal): Promise<OrderResult> {
  const carryOut = types.includes(order.work_type) && Object.hasOwn(kinds, order.work_type) ? kinds[order.work_type] : undefined
  if (carryOut === undefined) return failed(`unsupported work type ${order.work_type.slice(0, 64)}`, false)
  const leftMs = Math.max(0, order.claimedAtMs + budgetMs(order) - deps.clock.now())
  const budget = AbortSignal.timeout(Math.ceil(leftMs))
  try {
    return hidden(await carryOut(deps, order, AbortSignal.any([signal, budget])), order)
  } catch (error) {
    signal.throwIfAborted()
    if (budget.aborted) return failed('the work took longer than the claim allows', true)
    const { code, message } = failureOf(error)
    return hidden(failed(`${code}: ${message}`, isRetryable(code)), order)
  }
}

/** Whoever refused may have quoted what was sent, and orders are read by more people than Secrets are. */
function hidden(result: OrderResult, order: Order): OrderResult {
  const read = result.success ? null : readObjects(order.yaml_content)
  return read?.ok ? { ...result, message: maskText(result.message, read.objects) } : result
}
