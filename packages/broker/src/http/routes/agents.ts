// Agents: their record, key and heartbeat.
import type { Agent } from '@brokkr/contract/agent.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import { createAgent } from '../../actions/create-agent.ts'
import { deleteAgent } from '../../actions/delete-agent.ts'
import { recordHeartbeat } from '../../actions/record-heartbeat.ts'
import { rotateAgentPak } from '../../actions/rotate-agent-pak.ts'
import { updateAgent } from '../../actions/update-agent.ts'
import type { BrokerDeps } from '../../deps.ts'
import * as agents from '../../store/agents.ts'
import * as annotations from '../../store/annotations.ts'
import * as labels from '../../store/labels.ts'
import { preconditionOf, tagged, withTag } from '../etag.ts'
import type { Handler } from '../handler.ts'
import { byName } from '../list-order.ts'
import { page } from '../paging.ts'
import { actorOf } from './actor.ts'
import { marksOf } from './marks-of.ts'
import { seesDeleted } from './sees-deleted.ts'

export const handleListAgents: Handler<'listAgents', BrokerDeps> = ({ sql }, request) => {
  const { query, principal } = request
  const filter = {
    name: query.name ?? null,
    status: query.status ?? null,
    generator_id: principal.kind === 'generator' ? principal.id : null,
    ...marksOf(query),
  }
  const list = seesDeleted(request) ? agents.listWithDeleted : query.name === undefined ? agents.list : agents.listNamed
  return page(request, byName, {
    name: 'listAgents',
    cap: 10_000,
    read: ({ after: [after_name, after_id], limit }) => list(sql, { ...filter, after_name, after_id, limit }),
  })
}

export const handleCreateAgent: Handler<'createAgent', BrokerDeps> = (deps, request) =>
  createAgent(deps, { ...request.body, by: actorOf(request) })

/** An agent that asks for itself was not looked up: its key proves it. */
export const handleGetAgent: Handler<'getAgent', BrokerDeps> = async ({ sql }, request) =>
  withTag(request, found((request.found as Agent | null) ?? (await agents.get(sql, { id: request.params.id }))))

export const handleSearch: Handler<'searchAgent', BrokerDeps> = async ({ sql }, request) =>
  withTag(request, found(await agents.find(sql, { name: request.query.name ?? '', cluster_name: request.query.cluster_name ?? '' })))

export const handleUpdate: Handler<'updateAgent', BrokerDeps> = async (deps, request) => {
  const { name, cluster_name, status } = request.body
  const change = { agentId: request.params.id, name, cluster_name, status, precondition: preconditionOf(request), by: actorOf(request) }
  return tagged(request, await updateAgent(deps, change))
}

export const handleDelete: Handler<'deleteAgent', BrokerDeps> = async (deps, request) => {
  await deleteAgent(deps, { agentId: request.params.id, by: actorOf(request) })
  deps.dropCredential('agent', request.params.id)
}

export const handleRotatePak: Handler<'rotateAgentPak', BrokerDeps> = async (deps, request) => {
  const { short_token, pak_hash } = request.body
  const rotated = await rotateAgentPak(deps, { agentId: request.params.id, short_token, pak_hash, by: actorOf(request) })
  deps.dropCredential('agent', request.params.id)
  return rotated
}

export const handleHeartbeat: Handler<'recordHeartbeat', BrokerDeps> = async (deps, { params, body, headers, reply }) => {
  await recordHeartbeat(deps, { agentId: params.id, heartbeat: body })
  if (!/\breturn=representation\b/i.test(headers['prefer'] ?? '')) return undefined
  reply.setStatus(200)
  reply.setHeader('preference-applied', 'return=representation')
  return representation(deps, params.id)
}

async function representation({ sql }: Pick<BrokerDeps, 'sql'>, id: string) {
  const [agent, itsLabels, itsAnnotations] = [
    found(await agents.get(sql, { id })),
    await labels.ofAgent(sql, { agent_id: id }),
    await annotations.ofAgent(sql, { agent_id: id }),
  ]
  return { agent, labels: itsLabels, annotations: itsAnnotations }
}

function found(agent: Agent | null): Agent {
  if (agent === null) throw new ApiError('agent_not_found', 'no such agent')
  return agent
}
