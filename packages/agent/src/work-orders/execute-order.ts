// Executes a work order by its type within the remaining time of its claim.
import { flowWorkType } from '@brokkr/contract/flows/flow-order.ts'
import { classifyFailure } from '@brokkr/kube'
import { impersonateGenerator } from '../reconcile/apply/impersonate.ts'
import { parseObjects } from '../reconcile/plan/desired.ts'
import { maskText } from '../reconcile/plan/mask.ts'
import { checkSignature } from '../reconcile/plan/signature.ts'
import { workOrdersGenerator } from '../reconcile/stack-generators.ts'
import { isRetryable } from './apply-order.ts'
import { executeBuild } from './build.ts'
import { executeCustom } from './custom.ts'
import { executeFlowOrder } from './flow.ts'
import { type Order, type OrderDeps, type OrderResult, toBudgetMs, toFailure } from './order.ts'

const kinds: Readonly<Record<string, (deps: OrderDeps, order: Order, signal: AbortSignal) => Promise<OrderResult>>> = {
  build: executeBuild,
  custom: executeCustom,
  [flowWorkType]: executeFlowOrder,
}

/** Throws only the reason of `signal`: then the result is unknown. */
export async function executeOrder(deps: OrderDeps, order: Order, types: readonly string[], signal: AbortSignal): Promise<OrderResult> {
  const carryOut = types.includes(order.work_type) && Object.hasOwn(kinds, order.work_type) ? kinds[order.work_type] : undefined
  if (carryOut === undefined) return toFailure(`unsupported work type ${order.work_type.slice(0, 64)}`, false)
  const unsigned = checkSignature(order.yaml_content, deps.settings.signatures, 'work order')
  if (unsigned !== null) return toFailure(`${unsigned.code}: ${unsigned.message}`, false)
  const impersonation = impersonateGenerator(deps, workOrdersGenerator)
  if (!impersonation.ok) return toFailure(`${impersonation.problem.code}: ${impersonation.problem.message}`, false)
  const leftMs = Math.max(0, order.claimedAtMs + toBudgetMs(order) - deps.clock.now())
  const budget = AbortSignal.timeout(Math.ceil(leftMs))
  try {
    return maskResult(await carryOut(impersonation.deps, order, AbortSignal.any([signal, budget])), order)
  } catch (error) {
    signal.throwIfAborted()
    if (budget.aborted) return toFailure('the work took longer than the claim allows', true)
    const { code, message } = classifyFailure(error)
    return maskResult(toFailure(`${code}: ${message}`, isRetryable(code)), order)
  }
}

/** Masks the message: an error can quote the content, and more people read orders than Secrets. */
function maskResult(result: OrderResult, order: Order): OrderResult {
  const read = result.success ? null : parseObjects(order.yaml_content)
  return read?.ok ? { ...result, message: maskText(result.message, read.objects) } : result
}
