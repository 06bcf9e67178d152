// Invites of agents, for the admin who makes them and for whoever joins by one.
import { randomBytes } from 'node:crypto'
import { ApiError } from '@brokkr/contract/error.ts'
import { createAgentInvite } from '../../actions/create-agent-invite.ts'
import { joinAgent } from '../../actions/join-agent.ts'
import { revokeAgentInvite } from '../../actions/revoke-agent-invite.ts'
import type { BrokerDeps } from '../../deps.ts'
import { joinManifest } from '../../domain/join-manifest.ts'
import * as agentInvites from '../../store/agent-invites.ts'
import { withTagOf } from '../etag.ts'
import type { Handler } from '../handler.ts'
import { newestFirst } from '../list-order.ts'
import { page } from '../paging.ts'
import { actorOf } from './actor.ts'

export const handleCreate: Handler<'createAgentInvite', BrokerDeps> = (deps, request) =>
  createAgentInvite(deps, { ...request.body, by: actorOf(request) })

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
  return withTagOf(request, `W/"${invite.updated_at}-${invite.agents.length}"`, () => invite)
}

export const handleRevoke: Handler<'revokeAgentInvite', BrokerDeps> = (deps, request) =>
  revokeAgentInvite(deps, { id: request.params.id, by: actorOf(request) })

export const handleJoin: Handler<'join', BrokerDeps> = async (deps, request) => {
  const { address, userAgent, requestId } = actorOf(request)
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
  if (invite === null || invite.uses_left === 0) throw new ApiError('unauthorized', 'the join token is used up')
  const image = config.broker.agent_image
  if (image === null)
    throw new ApiError('agent_image_unset', 'the broker does not know the image of the agent: its operator sets broker.agent_image')
  // Whoever named no agent gets a name per manifest: each is meant for one cluster.
  const name = invite.name ?? `${invite.name_prefix ?? 'agent-'}${randomBytes(4).toString('hex')}`
  return joinManifest({
    brokerUrl: `${cookie.scheme}://${hostOf(headers['host'])}`,
    image,
    token: (headers['authorization'] ?? '').trim().replace(/^join +/i, ''),
    name,
    clusterName: invite.cluster_name ?? name,
    preset: invite.preset,
    namespaces: invite.namespaces,
  })
}

/** The address by which the caller reached us is the one its agent will use. */
function hostOf(host: string | undefined): string {
  if (host !== undefined && /^([\w.-]+|\[[0-9a-fA-F:.]+\])(:\d{1,5})?$/.test(host)) return host
  throw new ApiError('validation_failed', 'the Host header must be the name by which agents reach the broker', {
    details: { errors: [{ path: 'Host', message: 'is no name of a host' }] },
  })
}
