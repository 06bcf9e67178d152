// Reads a plan with the results of its agents. The changes of all agents together are limited; those that do not fit are left out.

import { ApiError } from '@brokkr/contract/errors.ts'
import type { Plan, PlanChange, PlanResult, PlanWithResults } from '@brokkr/contract/plans/plan.ts'
import type { Sql } from '@brokkr/postgres'
import type { Seal } from '../../seal.ts'
import { toChangesContext } from '../rules.ts'
import * as plans from '../store/plans.ts'

/** An agent that has not answered by then is shown as silent. */
const answerSeconds = 60
const changesBytesMax = 8 * 1024 * 1024

export async function readPlan(
  { sql, seal }: { sql: Sql; seal: Seal },
  { planId, agentId }: { planId: string; agentId: string | null },
): Promise<PlanWithResults> {
  const found = await plans.get(sql, { id: planId })
  if (found === null) throw new ApiError('plan_not_found', 'no such plan')
  const { generator_id: _owner, is_expired: _expired, ...plan } = found
  const rows = await plans.listResults(sql, { plan_id: planId, agent_id: null, answer_seconds: answerSeconds })
  const shown = agentId === null ? rows : rows.filter((row) => row.agent_id === agentId)
  const fitting = takeFitting(shown)
  const sealed = await plans.listSealedChanges(sql, { ids: [...fitting] })
  const changes = new Map(sealed.map(({ id, sealed: bytes }) => [id, JSON.parse(seal.open(toChangesContext(id), bytes)) as PlanChange[]]))
  const results = shown.map((row) => toResult(row, changes.get(row.id) ?? [], row.changes_bytes > 0 && !fitting.has(row.id)))
  return { ...(plan as Plan), agents_total: rows.length, results }
}

/** Ids of the first rows whose changes fit together; at least one. */
function takeFitting(rows: readonly plans.ResultRow[]): ReadonlySet<string> {
  let bytes = 0
  return new Set(rows.filter((row, at) => (bytes += row.changes_bytes) <= changesBytesMax || at === 0).map(({ id }) => id))
}

function toResult({ id: _id, changes_bytes: _bytes, ...row }: plans.ResultRow, changes: PlanChange[], hasMore: boolean): PlanResult {
  return { ...row, changes, has_more: hasMore } as PlanResult
}
