// Composition root of plans.
import type { Loop } from '@brokkr/runtime/loop.ts'
import type { OperationsConfig } from '../config-operations.ts'
import type { OperationsDeps } from '../start-operations.ts'
import { computePlan } from './compute-plan.ts'
import { toRefusal } from './plan-changes.ts'
import { plansLoop } from './plans-loop.ts'

export const createPlans = ({ log, metrics, agentId, broker, reconcile, permit }: OperationsDeps, agent: OperationsConfig): Loop =>
  plansLoop({
    log,
    metrics,
    agentId,
    client: broker.client,
    everyMs: agent.plans_interval * 1000,
    // Dry runs pass the permit like writes, so an agent that may not write cannot answer.
    compute: async (plan, signal) =>
      permit.refusal === null
        ? computePlan(reconcile, plan, signal)
        : toRefusal(`the agent may not write to its cluster: ${permit.refusal}`),
  })
