// Answers plans: reads those that wait for this agent, computes each within its time limit and reports the result.
import type { Client } from '@brokkr/contract/client.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { NewPlanResult, PendingPlan } from '@brokkr/contract/plans/plan.ts'
import type { AgentId } from '@brokkr/contract/wire.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import type { AgentMetrics } from '../metrics.ts'
import { isNotServed } from '../reporting/send-events.ts'
import { toRefusal } from './plan-changes.ts'

export interface PlansDeps {
  readonly client: Client
  readonly agentId: AgentId
  readonly log: Log
  readonly metrics: AgentMetrics
  readonly everyMs: number
  readonly compute: (plan: PendingPlan, signal: AbortSignal) => Promise<NewPlanResult>
}
/** The broker shows an agent as silent after 60 seconds. */
const computeMs = 50_000
/** Reads of one run; more plans wait for the next run. */
const readsMax = 20

export const plansLoop = (deps: PlansDeps): Loop => ({
  name: 'plans',
  everyMs: deps.everyMs,
  run: async (signal) => {
    let answered = 0
    for (let read = 0; read < readsMax; read += 1) {
      const waiting = await listPending(deps, signal)
      for (const plan of waiting) {
        // A plan that cannot be reported stays in the list: the next run tries again.
        if (!(await answer(deps, plan, signal))) return { done: answered }
        answered += 1
      }
      if (waiting.length === 0) break
    }
    return { done: answered }
  },
})

async function listPending({ client, agentId }: PlansDeps, signal: AbortSignal): Promise<PendingPlan[]> {
  try {
    return await client.listPendingPlans({ params: { id: agentId } }, { signal })
  } catch (error) {
    if (isNotServed(error)) return []
    throw error
  }
}

async function answer(deps: PlansDeps, plan: PendingPlan, signal: AbortSignal): Promise<boolean> {
  const { client, log, metrics, compute } = deps
  const result = await compute(plan, AbortSignal.any([signal, AbortSignal.timeout(computeMs)])).catch((error: unknown) => {
    signal.throwIfAborted()
    log.warn('plan not computed', { plan_id: plan.id, stack_id: plan.stack_id, why: errorText(error) })
    return toRefusal(error instanceof DOMException && error.name === 'TimeoutError' ? 'the plan took too long' : unknownText)
  })
  try {
    await client.reportPlanResult({ params: { id: plan.id }, body: result }, { signal })
    metrics.plans.inc({ result: result.state })
    return true
  } catch (error) {
    signal.throwIfAborted()
    // The plan has expired, or its stack no longer targets this agent.
    if (error instanceof ApiError && [403, 404, 409].includes(error.status)) return true
    // A result that the broker does not read must not stop later plans.
    const isUnread = error instanceof ApiError && [400, 413, 422].includes(error.status) && result.state === 'answered'
    if (isUnread) return answer({ ...deps, compute: async () => toRefusal('the broker did not accept the result') }, plan, signal)
    log.warn('plan result not reported', { plan_id: plan.id, why: errorText(error) })
    return false
  }
}

/** Error texts can quote manifests; the log of the agent has the reason. */
const unknownText = 'the agent could not compute the plan; its log names the reason'
