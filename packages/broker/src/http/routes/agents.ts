// Agents: their record, labels, targets and heartbeat.
import { ApiError } from '@brokkr/contract/error.ts'
import { createAgent } from '../../actions/create-agent.ts'
import { addAgentLabel, removeAgentLabel } from '../../actions/label-agent.ts'
import { recordHeartbeat } from '../../actions/record-heartbeat.ts'
import { addTarget, removeTarget } from '../../actions/target-stack.ts'
import type { BrokerDeps } from '../../deps.ts'
import * as agentTargets from '../../store/agent-targets.ts'
import * as agents from '../../store/agents.ts'
import * as labels from '../../store/labels.ts'
import type { Handler } from '../handler.ts'
import { actorOf } from './actor.ts'

const listMax = 10_000

export const handleListAgents: Handler<'listAgents', BrokerDeps> = ({ sql }, { query, principal }) =>
  agents.list(sql, { name: query.name ?? null, generator_id: principal.kind === 'generator' ? principal.id : null, limit: listMax })

export const handleCreateAgent: Handler<'createAgent', BrokerDeps> = (deps, request) =>
  createAgent(deps, { ...request.body, by: actorOf(request) })

export const handleGetAgent: Handler<'getAgent', BrokerDeps> = async ({ sql }, { params }) => {
  const agent = await agents.get(sql, { id: params.id })
  if (agent === null) throw new ApiError('agent_not_found', 'no such agent')
  return agent
}

export const handleListLabels: Handler<'agentsListLabels', BrokerDeps> = ({ sql }, { params }) =>
  labels.ofAgent(sql, { agent_id: params.id })

export const handleAddLabel: Handler<'agentsAddLabel', BrokerDeps> = (deps, request) => {
  if (request.body.agent_id !== request.params.id) throw new ApiError('agent_id_mismatch', 'agent_id in the body differs from the path')
  return addAgentLabel(deps, { agentId: request.params.id, label: request.body.label, by: actorOf(request) })
}

export const handleRemoveLabel: Handler<'agentsRemoveLabel', BrokerDeps> = (deps, request) =>
  removeAgentLabel(deps, { agentId: request.params.id, label: request.params.label, by: actorOf(request) })

export const handleListTargets: Handler<'listTargets', BrokerDeps> = ({ sql }, { params, query }) =>
  agentTargets.list(sql, { agent_id: params.id, reason: query.reason })

export const handleAddTarget: Handler<'addTarget', BrokerDeps> = (deps, request) =>
  addTarget(deps, { agentId: request.params.id, stackId: request.body.stack_id, bodyAgentId: request.body.agent_id, by: actorOf(request) })

export const handleRemoveTarget: Handler<'removeTarget', BrokerDeps> = (deps, request) =>
  removeTarget(deps, { agentId: request.params.id, stackId: request.params.stack_id, bodyAgentId: request.params.id, by: actorOf(request) })

export const handleHeartbeat: Handler<'recordHeartbeat', BrokerDeps> = (deps, { params, body }) =>
  recordHeartbeat(deps, { agentId: params.id, heartbeat: body })
