// Sign-in and sign-out of the console.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { BrokerDeps } from '../../deps.ts'
import { toActor } from '../../http/request/actor.ts'
import type { Handler } from '../../http/server/handler.ts'
import { createSession } from '../actions/create-session.ts'
import { deleteSession } from '../actions/delete-session.ts'

export const handleCreate: Handler<'createSession', BrokerDeps> = async (deps, request) => {
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

export const handleDelete: Handler<'deleteSession', BrokerDeps> = async (deps, request) => {
  const id = request.principal.session
  if (id === null) throw new ApiError('forbidden', 'there is no session to end')
  await deleteSession(deps, { id, actor: toActor(request) })
  request.reply.setHeader('set-cookie', deps.cookie.cleared)
}
