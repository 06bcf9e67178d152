// Sign-in links: created with a PAK, exchanged by the console.
import type { BrokerDeps } from '../../deps.ts'
import { toActor } from '../../http/request/actor.ts'
import { requireHost } from '../../http/request/require-host.ts'
import type { Handler } from '../../http/server/handler.ts'
import { createLoginLink } from '../actions/create-login-link.ts'
import { exchangeLoginLink } from '../actions/exchange-login-link.ts'

export const handleCreate: Handler<'createLoginLink', BrokerDeps> = (deps, request) =>
  createLoginLink(deps, {
    identity: request.principal,
    pakHash: request.principal.pakHash,
    readonly: request.principal.readonly || request.body.readonly === true,
    seconds: deps.config.broker.login_link_seconds,
    baseUrl: `${deps.cookie.scheme}://${requireHost(request.headers['host'])}`,
    actor: toActor(request),
  })

export const handleExchange: Handler<'exchangeLoginLink', BrokerDeps> = async (deps, request) => {
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
