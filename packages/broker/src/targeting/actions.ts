// Targets of stacks: explicit ones, and those that follow from labels and annotations.
import type { AgentTarget } from '@brokkr/contract/agents/agent.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql, Tx } from '@brokkr/postgres'
import { recordAuditEntry } from '../audit/record.ts'
import type { Actor } from '../audit/rules.ts'
import * as registrations from '../generators/store/registrations.ts'
import * as stacks from '../stacks/store/stacks.ts'
import * as agentTargets from './store/agent-targets.ts'

// Adds or removes an explicit target. Checks in this order: the stack exists, the caller owns it, the agent is registered with its
// generator, body and path name the same agent.

export interface TargetStack {
  readonly agentId: string
  readonly stackId: string
  /** Agent id of the body, or of the path if there is no body. */
  readonly bodyAgentId: string
  readonly actor: Actor
}
type Deps = { sql: Sql; wakeFeed: () => void }

export async function addTarget(deps: Deps, input: TargetStack): Promise<AgentTarget> {
  const target = await deps.sql.begin(async (sql) => {
    await lockTarget(sql, input)
    await requirePermittedTarget(sql, input)
    const row = await agentTargets.makeExplicit(sql, { agent_id: input.agentId, stack_id: input.stackId })
    if (row === null)
      throw new ApiError('unique_violation', 'an explicit target already exists for this agent and stack', {
        details: { constraint: 'unique_agent_stack' },
      })
    await refuseTooManyTargets(sql, input.agentId)
    await recordAuditEntry(sql, {
      actor: input.actor,
      action: 'target.added',
      resource: { type: 'target', id: row.id },
      details: { agent_id: input.agentId, stack_id: input.stackId },
    })
    return row
  })
  deps.wakeFeed()
  return target
}

export async function removeTarget(deps: Deps, input: TargetStack): Promise<void> {
  await deps.sql.begin(async (sql) => {
    await lockTarget(sql, input)
    await requirePermittedTarget(sql, input)
    const { dropped } = await agentTargets.dropExplicit(sql, { agent_id: input.agentId, stack_id: input.stackId })
    if (dropped === 0) throw new ApiError('agent_target_not_found', 'no explicit target exists for this agent and stack')
    await recordAuditEntry(sql, {
      actor: input.actor,
      action: 'target.removed',
      resource: { type: 'target', id: null },
      details: { agent_id: input.agentId, stack_id: input.stackId },
    })
  })
  deps.wakeFeed()
}

async function lockTarget(sql: Tx, { agentId, stackId }: TargetStack): Promise<void> {
  await sql.pipeline((tx) => [
    lockAgent(tx, agentId),
    lockStack(tx, stackId),
    agentTargets.holdStack(tx, { stack_id: stackId }),
    agentTargets.holdAgent(tx, { agent_id: agentId }),
  ])
}

async function refuseTooManyTargets(sql: Sql, agentId: string): Promise<void> {
  const { held } = await agentTargets.countOfAgent(sql, { agent_id: agentId })
  if (held <= targetsPerAgentMax) return
  throw new ApiError('limit_exceeded', `an agent has at most ${targetsPerAgentMax} targets`, { details: { limit: targetsPerAgentMax } })
}

async function requirePermittedTarget(sql: Sql, { agentId, stackId, bodyAgentId, actor }: TargetStack): Promise<void> {
  const stack = await stacks.get(sql, { id: stackId })
  if (stack === null) throw new ApiError('stack_not_found', 'no such stack')
  if (actor.kind === 'agent') throw new ApiError('target_create_denied', 'agents cannot create targets')
  if (actor.kind === 'generator' && actor.id !== stack.generator_id)
    throw new ApiError('target_generator_mismatch', 'the stack belongs to another generator')
  const registration = await registrations.exists(sql, { agent_id: agentId, generator_id: stack.generator_id })
  if (registration === null)
    throw new ApiError('agent_not_registered', 'the agent is not registered with the generator of this stack: register it first')
  if (bodyAgentId !== agentId) throw new ApiError('agent_id_mismatch', 'agent_id in the body differs from the path')
}

// Recomputes the targets of one agent or stack from labels, annotations, explicit targets and registrations, in the transaction that changed
// one of them. Calls follow the lock order of migrations/0007_targeting.sql: `lock*`, checks, then gate locks, the change and `retarget*`
// pipelined with the commit. So gate locks are held only while the database works.

/** Enforced by `retarget_agent`, which fails with BK005. */
const targetsPerAgentMax = 10_000

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
