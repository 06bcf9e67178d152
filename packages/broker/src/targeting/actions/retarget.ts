// Recomputes the targets of one agent or stack from labels, annotations, explicit targets and registrations, in the transaction that changed
// one of them. Calls follow the lock order of migrations/0007_targeting.sql: `lock*`, checks, then gate locks, the change and `retarget*`
// pipelined with the commit. So gate locks are held only while the database works.

import type { Sql } from '@brokkr/postgres'
import * as agentTargets from '../store/agent-targets.ts'

/** Enforced by `retarget_agent`, which fails with BK005. */
export const targetsPerAgentMax = 10_000

/** Key of the gate lock of a label or annotation. */
export const toLabelKey = (label: string): string => `l${label}`
export const toAnnotationKey = (key: string, value: string): string => `a${key}=${value}`

export const lockAgent = (sql: Sql, agentId: string) => agentTargets.lockAgent(sql, { agent_id: agentId })
export const lockStack = (sql: Sql, stackId: string) => agentTargets.lockStack(sql, { stack_id: stackId })

/** `change` adds or removes `keys` or registrations of the agent; its result is returned. */
export async function changeAgent<T>(sql: Sql, agentId: string, keys: string[], change: () => Promise<T>): Promise<T> {
  const [, result] = await Promise.all([
    agentTargets.enterGatesOfAgent(sql, { agent_id: agentId, keys }),
    change(),
    agentTargets.retargetAgent(sql, { agent_id: agentId, targets_max: targetsPerAgentMax }),
  ])
  return result
}

/** The same for a stack. */
export async function changeStack<T>(sql: Sql, stackId: string, keys: string[], change: () => Promise<T>): Promise<T> {
  const [, result] = await Promise.all([
    agentTargets.enterGatesOfStack(sql, { stack_id: stackId, keys }),
    change(),
    agentTargets.retargetStack(sql, { stack_id: stackId }),
  ])
  return result
}
