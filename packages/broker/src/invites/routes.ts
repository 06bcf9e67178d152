// Invites: create, list, read and revoke for admins; join and join manifest for agents.
import { randomBytes } from 'node:crypto'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { BrokerDeps } from '../deps.ts'
import { requireHost, toActor } from '../http/request/actor.ts'
import { respondWithTag } from '../http/response/etag.ts'
import { newestFirst } from '../http/response/list-order.ts'
import { page } from '../http/response/paging.ts'
import type { Handler } from '../http/server/handler.ts'
import { createAgentInvite, revokeAgentInvite } from './actions/agent-invites.ts'
import { joinAgent } from './actions/join-agent.ts'
import { buildJoinManifest } from './rules/join-manifest.ts'
import * as agentInvites from './store.ts'

export const handleCreate: Handler<'createAgentInvite', BrokerDeps> = (deps, request) =>
  createAgentInvite(deps, { ...request.body, actor: toActor(request) })

export const handleList: Handler<'listAgentInvites', BrokerDeps> = ({ sql }, request) =>
  page(request, newestFirst, {
    name: 'listAgentInvites',
    cap: 1000,
    read: ({ after: [after_at, after_id], limit }) => agentInvites.list(sql, { after_at, after_id, limit }),
    bytesOf: (invite) => JSON.stringify(invite).length,
  })

export const handleGet: Handler<'getAgentInvite', BrokerDeps> = async ({ sql }, request) => {
  const invite = await agentInvites.get(sql, { id: request.params.id })
  if (invite === null) throw new ApiError('not_found', 'no such invite')
  // An agent that is deleted leaves the invite as it was.
  return respondWithTag(request, `W/"${invite.updated_at}-${invite.agents.length}"`, () => invite)
}

export const handleRevoke: Handler<'revokeAgentInvite', BrokerDeps> = (deps, request) =>
  revokeAgentInvite(deps, { id: request.params.id, actor: toActor(request) })

export const handleJoin: Handler<'join', BrokerDeps> = async (deps, request) => {
  const { address, userAgent, requestId } = toActor(request)
  const { agent, isNew } = await joinAgent(deps, {
    ...request.body,
    inviteId: request.principal.id,
    from: { address, userAgent, requestId },
  })
  if (!isNew) request.reply.setStatus(200)
  return { agent }
}

export const handleManifest: Handler<'getJoinManifest', BrokerDeps> = async ({ sql, config, cookie }, { principal, headers }) => {
  const invite = await agentInvites.get(sql, { id: principal.id })
  if (invite === null || invite.uses_left === 0)
    throw new ApiError('unauthorized', 'the join token is used up; ask an admin for a new invite')
  const image = config.broker.agent_image
  if (image === null)
    throw new ApiError(
      'agent_image_unset',
      'the image of the agent is not configured: the operator of the broker must set broker.agent_image',
    )
  // Without a fixed name each manifest gets a generated one, because each is meant for one cluster.
  const name = invite.name ?? `${invite.name_prefix ?? 'agent-'}${randomBytes(4).toString('hex')}`
  return buildJoinManifest({
    brokerUrl: `${cookie.scheme}://${requireHost(headers['host'])}`,
    image,
    token: (headers['authorization'] ?? '').trim().replace(/^join +/i, ''),
    name,
    clusterName: invite.cluster_name ?? name,
    preset: invite.preset,
    namespaces: invite.namespaces,
  })
}
