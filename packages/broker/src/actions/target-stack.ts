// Aims a stack at an agent by hand, or stops doing so. The gate, in this order: the stack exists, the caller owns it, the
// agent is registered with its generator, body and path agree.
import type { AgentTarget } from '@brokkr/contract/agent.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import * as agentTargets from '../store/agent-targets.ts'
import * as registrations from '../store/registrations.ts'
import type { Sql } from '../store/sql.ts'
import * as stacks from '../store/stacks.ts'
import { lockTargeting, refuseTooManyTargets } from './retarget.ts'

export interface TargetStack {
  readonly agentId: string
  readonly stackId: string
  /** What the body says the agent is; the path's id where there is no body. */
  readonly bodyAgentId: string
  readonly by: Actor
}
type Deps = { sql: Sql; wakeFeed: () => void }

export async function addTarget(deps: Deps, input: TargetStack): Promise<AgentTarget> {
  const target = await deps.sql.begin(async (sql) => {
    await lockTargeting(sql)
    await passGate(sql, input)
    const made = await agentTargets.makeExplicit(sql, { agent_id: input.agentId, stack_id: input.stackId })
    if (made === null)
      throw new ApiError('unique_violation', 'the stack is aimed at this agent already', { details: { constraint: 'unique_agent_stack' } })
    await refuseTooManyTargets(sql, input.agentId)
    await recordDeed(sql, {
      by: input.by,
      action: 'target.added',
      on: { type: 'target', id: made.id },
      details: { agent_id: input.agentId, stack_id: input.stackId },
    })
    return made
  })
  deps.wakeFeed()
  return target
}

export async function removeTarget(deps: Deps, input: TargetStack): Promise<void> {
  await deps.sql.begin(async (sql) => {
    await lockTargeting(sql)
    await passGate(sql, input)
    const { dropped } = await agentTargets.dropExplicit(sql, { agent_id: input.agentId, stack_id: input.stackId })
    if (dropped === 0) throw new ApiError('agent_target_not_found', 'the stack is not aimed at this agent by hand')
    await recordDeed(sql, {
      by: input.by,
      action: 'target.removed',
      on: { type: 'target', id: null },
      details: { agent_id: input.agentId, stack_id: input.stackId },
    })
  })
  deps.wakeFeed()
}

async function passGate(sql: Sql, { agentId, stackId, bodyAgentId, by }: TargetStack): Promise<void> {
  const stack = await stacks.get(sql, { id: stackId })
  if (stack === null) throw new ApiError('stack_not_found', 'no such stack')
  if (by.kind === 'agent') throw new ApiError('target_create_denied', 'agents do not choose their stacks')
  if (by.kind === 'generator' && by.id !== stack.generator_id)
    throw new ApiError('target_generator_mismatch', 'the stack belongs to another generator')
  const registered = await registrations.exists(sql, { agent_id: agentId, generator_id: stack.generator_id })
  if (registered === null)
    throw new ApiError('agent_not_registered', 'the agent is not registered with the generator of this stack: register it first')
  if (bodyAgentId !== agentId) throw new ApiError('agent_id_mismatch', 'agent_id in the body differs from the path')
}
