// Stores the result of one agent. A repeated report replaces the earlier one.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { NewPlanResult } from '@brokkr/contract/plans/plan.ts'
import type { Sql } from '@brokkr/postgres'
import type { Seal } from '../../seal.ts'
import { toChangesContext } from '../rules.ts'
import * as plans from '../store/plans.ts'

export async function reportPlanResult(
  deps: { sql: Sql; seal: Seal; wakeFeed: () => void },
  { planId, agentId, result }: { planId: string; agentId: string; result: NewPlanResult },
): Promise<void> {
  const { state, summary, changes } = result
  await deps.sql.begin(async (sql) => {
    const plan = await plans.get(sql, { id: planId })
    if (plan === null) throw new ApiError('plan_not_found', 'no such plan')
    const row = await plans.findResult(sql, { plan_id: planId, agent_id: agentId })
    if (row === null) throw new ApiError('plan_not_targeted', 'the plan does not address this agent, or its stack no longer targets it')
    if (plan.is_expired) throw new ApiError('plan_expired', 'the plan has expired: a new plan needs a new result')
    const changes_sealed = deps.seal.seal(toChangesContext(row.id), JSON.stringify(changes))
    await plans.putResult(sql, { id: row.id, state, reason: result.reason ?? null, summary: JSON.stringify(summary), changes_sealed })
  })
  deps.wakeFeed()
}
