// Routes of agents: agents, PAK rotation, heartbeat, fleet, labels and annotations.
import type { Agent } from '@brokkr/contract/agents/agent.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { BrokerDeps } from '../deps.ts'
import { toActor } from '../http/request/actor.ts'
import { includesDeleted, toLabelFilter } from '../http/request/query.ts'
import { parsePrecondition, setEtag, withTag } from '../http/response/etag.ts'
import { byAgentName, byName, newestFirst } from '../http/response/list-order.ts'
import { page } from '../http/response/paging.ts'
import type { Handler } from '../http/server/handler.ts'
import { readAgentEvents } from '../reports/actions/agent-events.ts'
import * as agentEvents from '../reports/store/agent-events.ts'
import * as annotations from '../targeting/store/annotations.ts'
import * as labels from '../targeting/store/labels.ts'
import { createAgent, deleteAgent, updateAgent } from './actions/agents.ts'
import { addAgentAnnotation, removeAgentAnnotation } from './actions/annotate-agent.ts'
import { addAgentLabel, removeAgentLabel } from './actions/label-agent.ts'
import { recordHeartbeat } from './actions/record-heartbeat.ts'
import { rotateAgentPak } from './actions/rotate-agent-pak.ts'
import * as agents from './store/agents.ts'
import * as fleet from './store/fleet.ts'

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

const eventsMax = 20

export const handleList: Handler<'listFleet', BrokerDeps> = ({ sql }, request) =>
  page(request, byAgentName, {
    name: 'listFleet',
    cap: 10_000,
    read: ({ after: [after_name, after_id], limit }) =>
      (request.query.include === 'agent' ? fleet.listWithAgent : fleet.list)(sql, {
        generator_id: request.query.pak_id ?? null,
        after_name,
        after_id,
        limit,
      }),
  })

export const handleGet: Handler<'getAgentFleetStatus', BrokerDeps> = async ({ sql }, { params }) => {
  const record = await fleet.get(sql, { id: params.id })
  if (record === null) throw new ApiError('agent_not_found', 'no such agent')
  const [after_at, after_id] = newestFirst.first
  const entries = await agentEvents.listOfAgent(sql, { agent_id: params.id, with_deleted: false, after_at, after_id, limit: eventsMax })
  return { record, recent_events: await readAgentEvents({ sql }, entries) }
}

export const handleOverview: Handler<'getOverview', BrokerDeps> = ({ readOverview }) => readOverview()

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
