// A submission that names a plan is refused unless it is what was planned: same content, same newest object, same targets.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import * as deploymentObjects from '../../deployments/store/deployment-objects.ts'
import { digestTargets, findPlanDifferences } from '../rules.ts'
import * as plans from '../store/plans.ts'

/** The caller holds the lock of the stack and has not inserted the object yet. */
export async function requirePlanned(
  sql: Sql,
  { planId, stackId, ...content }: { planId: string; stackId: string; content_checksum: string; is_deletion_marker: boolean },
): Promise<void> {
  const plan = await plans.get(sql, { id: planId })
  if (plan === null || plan.stack_id !== stackId) throw new ApiError('plan_not_found', 'the stack has no such plan')
  const { sequence_id: base_sequence_id } = await deploymentObjects.readHeadSequence(sql, { stack_id: stackId })
  const targets = await plans.listTargets(sql, { stack_id: stackId })
  const target_digest = digestTargets(targets.map(({ agent_id }) => agent_id))
  const changed = findPlanDifferences(plan, { ...content, base_sequence_id, target_digest })
  if (changed.length === 0) return
  throw new ApiError('plan_outdated', `the plan no longer fits (${changed.join(', ')}): make a new plan and read it before applying`, {
    details: { changed },
  })
}
