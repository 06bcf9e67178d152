// Labels and annotations of agents.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { BrokerDeps } from '../../deps.ts'
import { toActor } from '../../http/request/actor.ts'
import type { Handler } from '../../http/server/handler.ts'
import * as annotations from '../../targeting/store/annotations.ts'
import * as labels from '../../targeting/store/labels.ts'
import { addAgentAnnotation, removeAgentAnnotation } from '../actions/annotate-agent.ts'
import { addAgentLabel, removeAgentLabel } from '../actions/label-agent.ts'

export const handleListLabels: Handler<'agentsListLabels', BrokerDeps> = ({ sql }, { params }) =>
  labels.ofAgent(sql, { agent_id: params.id })

export const handleAddLabel: Handler<'agentsAddLabel', BrokerDeps> = async (deps, request) => {
  refuseOther(request.body.agent_id, request.params.id)
  return addAgentLabel(deps, { agentId: request.params.id, label: request.body.label, actor: toActor(request) })
}

export const handleRemoveLabel: Handler<'agentsRemoveLabel', BrokerDeps> = (deps, request) =>
  removeAgentLabel(deps, { agentId: request.params.id, label: request.params.label, actor: toActor(request) })

export const handleListAnnotations: Handler<'agentsListAnnotations', BrokerDeps> = ({ sql }, { params }) =>
  annotations.ofAgent(sql, { agent_id: params.id })

export const handleAddAnnotation: Handler<'agentsAddAnnotation', BrokerDeps> = async (deps, request) => {
  const { agent_id, key, value } = request.body
  refuseOther(agent_id, request.params.id)
  return addAgentAnnotation(deps, { agentId: request.params.id, key, value, actor: toActor(request) })
}

export const handleRemoveAnnotation: Handler<'agentsRemoveAnnotation', BrokerDeps> = (deps, request) =>
  removeAgentAnnotation(deps, { agentId: request.params.id, key: request.params.key, actor: toActor(request) })

function refuseOther(inBody: string, inPath: string): void {
  if (inBody !== inPath) throw new ApiError('agent_id_mismatch', 'agent_id in the body differs from the path')
}
