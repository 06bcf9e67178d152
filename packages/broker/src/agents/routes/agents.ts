// Agents: create, read, update, delete, PAK rotation and heartbeat.
import type { Agent } from '@brokkr/contract/agents/agent.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { BrokerDeps } from '../../deps.ts'
import { toActor } from '../../http/request/actor.ts'
import { toLabelFilter } from '../../http/request/label-filter.ts'
import { includesDeleted } from '../../http/request/sees-deleted.ts'
import { parsePrecondition, setEtag, withTag } from '../../http/response/etag.ts'
import { byName } from '../../http/response/list-order.ts'
import { page } from '../../http/response/paging.ts'
import type { Handler } from '../../http/server/handler.ts'
import * as annotations from '../../targeting/store/annotations.ts'
import * as labels from '../../targeting/store/labels.ts'
import { createAgent } from '../actions/create-agent.ts'
import { deleteAgent } from '../actions/delete-agent.ts'
import { recordHeartbeat } from '../actions/record-heartbeat.ts'
import { rotateAgentPak } from '../actions/rotate-agent-pak.ts'
import { updateAgent } from '../actions/update-agent.ts'
import * as agents from '../store/agents.ts'

export const handleListAgents: Handler<'listAgents', BrokerDeps> = ({ sql }, request) => {
  const { query, principal } = request
  const filter = {
    name: query.name ?? null,
    status: query.status ?? null,
    generator_id: principal.kind === 'generator' ? principal.id : null,
    ...toLabelFilter(query),
  }
  const hasFilter = filter.status !== null || filter.generator_id !== null || filter.labels.length + filter.keys.length > 0
  const liveList = query.name !== undefined ? agents.listNamed : hasFilter ? agents.list : agents.listAll
  const list = includesDeleted(request) ? agents.listWithDeleted : liveList
  return page(request, byName, {
    name: 'listAgents',
    cap: 10_000,
    read: ({ after: [after_name, after_id], limit }) => list(sql, { ...filter, after_name, after_id, limit }),
  })
}

export const handleCreateAgent: Handler<'createAgent', BrokerDeps> = (deps, request) =>
  createAgent(deps, { ...request.body, actor: toActor(request) })

/** The permission check does not look up an agent that reads itself, because its PAK proves that it exists. */
export const handleGetAgent: Handler<'getAgent', BrokerDeps> = async ({ sql }, request) =>
  withTag(request, requireAgent((request.found as Agent | null) ?? (await agents.get(sql, { id: request.params.id }))))

export const handleSearch: Handler<'searchAgent', BrokerDeps> = async ({ sql }, request) =>
  withTag(request, requireAgent(await agents.find(sql, { name: request.query.name ?? '', cluster_name: request.query.cluster_name ?? '' })))

export const handleUpdate: Handler<'updateAgent', BrokerDeps> = async (deps, request) => {
  const { name, cluster_name, status } = request.body
  const change = {
    agentId: request.params.id,
    name,
    cluster_name,
    status,
    precondition: parsePrecondition(request),
    actor: toActor(request),
  }
  return setEtag(request, await updateAgent(deps, change))
}

export const handleDelete: Handler<'deleteAgent', BrokerDeps> = async (deps, request) => {
  await deleteAgent(deps, { agentId: request.params.id, actor: toActor(request) })
  deps.dropCredential('agent', request.params.id)
}

export const handleRotatePak: Handler<'rotateAgentPak', BrokerDeps> = async (deps, request) => {
  const { short_token, pak_hash } = request.body
  const response = await rotateAgentPak(deps, { agentId: request.params.id, short_token, pak_hash, actor: toActor(request) })
  deps.dropCredential('agent', request.params.id)
  return response
}

export const handleHeartbeat: Handler<'recordHeartbeat', BrokerDeps> = async (deps, { params, body, headers, reply }) => {
  await recordHeartbeat(deps, { agentId: params.id, heartbeat: body })
  if (!/\breturn=representation\b/i.test(headers['prefer'] ?? '')) return undefined
  reply.setStatus(200)
  reply.setHeader('preference-applied', 'return=representation')
  return readRepresentation(deps, params.id)
}

async function readRepresentation({ sql }: Pick<BrokerDeps, 'sql'>, id: string) {
  const [agent, agentLabels, agentAnnotations] = [
    requireAgent(await agents.get(sql, { id })),
    await labels.ofAgent(sql, { agent_id: id }),
    await annotations.ofAgent(sql, { agent_id: id }),
  ]
  return { agent, labels: agentLabels, annotations: agentAnnotations }
}

function requireAgent(agent: Agent | null): Agent {
  if (agent === null) throw new ApiError('agent_not_found', 'no such agent')
  return agent
}
