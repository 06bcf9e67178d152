// Routes of sign-in: console sessions, sign-in links, identity and rights of a PAK.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { AgentId, GeneratorId } from '@brokkr/contract/wire.ts'
import type { BrokerDeps } from '../deps.ts'
import { requireHost, toActor } from '../http/request/actor.ts'
import type { Handler } from '../http/server/handler.ts'
import { createLoginLink, exchangeLoginLink } from './actions/login-links.ts'
import { createSession, deleteSession } from './actions/sessions.ts'

import { listAccess } from './list-access.ts'

export const handleCreateSession: Handler<'createSession', BrokerDeps> = async (deps, request) => {
  const { principal, body, reply } = request
  const seconds = deps.config.broker.session_seconds
  const { token, ...session } = await createSession(deps, {
    identity: principal,
    pakHash: principal.pakHash,
    readonly: principal.readonly || body.readonly === true,
    seconds,
    idleSeconds: deps.config.broker.session_idle_seconds,
    actor: toActor(request),
  })
  reply.setHeader('set-cookie', deps.cookie.set(token, seconds))
  return session
}

export const handleDeleteSession: Handler<'deleteSession', BrokerDeps> = async (deps, request) => {
  const id = request.principal.session
  if (id === null) throw new ApiError('forbidden', 'there is no session to end')
  await deleteSession(deps, { id, actor: toActor(request) })
  request.reply.setHeader('set-cookie', deps.cookie.cleared)
}

export const handleCreateLink: Handler<'createLoginLink', BrokerDeps> = (deps, request) =>
  createLoginLink(deps, {
    identity: request.principal,
    pakHash: request.principal.pakHash,
    readonly: request.principal.readonly || request.body.readonly === true,
    seconds: deps.config.broker.login_link_seconds,
    baseUrl: `${deps.cookie.scheme}://${requireHost(request.headers['host'])}`,
    actor: toActor(request),
  })

export const handleExchangeLink: Handler<'exchangeLoginLink', BrokerDeps> = async (deps, request) => {
  const { session_seconds: seconds, session_idle_seconds: idleSeconds } = deps.config.broker
  const { token, ...session } = await exchangeLoginLink(deps, {
    linkId: request.principal.id,
    seconds,
    idleSeconds,
    from: { address: request.clientAddress, userAgent: request.userAgent, requestId: request.requestId },
  })
  request.reply.setHeader('set-cookie', deps.cookie.set(token, seconds))
  return session
}

export const handleVerifyPak: Handler<'verifyPak', BrokerDeps> = async (_, { principal }) => ({
  admin: principal.kind === 'admin',
  agent: principal.kind === 'agent' ? (principal.id as AgentId) : null,
  generator: principal.kind === 'generator' ? (principal.id as GeneratorId) : null,
  readonly: principal.readonly,
})

export const handleListAccess: Handler<'listAccess', BrokerDeps> = async (_, { principal }) => listAccess(principal)

/** Only callers that may read the stack reach it. */
export const handleListStackAccess: Handler<'listStackAccess', BrokerDeps> = async (_, { principal }) => listAccess(principal)
