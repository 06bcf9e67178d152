// Signing in and out of the console.
import { ApiError } from '@brokkr/contract/error.ts'
import { createSession } from '../../actions/create-session.ts'
import { deleteSession } from '../../actions/delete-session.ts'
import type { BrokerDeps } from '../../deps.ts'
import type { Handler } from '../handler.ts'
import { actorOf } from './actor.ts'

export const handleCreate: Handler<'createSession', BrokerDeps> = async (deps, request) => {
  const { principal, body, reply } = request
  const seconds = deps.config.broker.session_seconds
  const { token, ...shown } = await createSession(deps, {
    identity: principal,
    readonly: principal.readonly || body.readonly === true,
    seconds,
    idleSeconds: deps.config.broker.session_idle_seconds,
    by: actorOf(request),
  })
  reply.setHeader('set-cookie', deps.cookie.set(token, seconds))
  return shown
}

export const handleDelete: Handler<'deleteSession', BrokerDeps> = async (deps, request) => {
  const id = request.principal.session
  if (id === null) throw new ApiError('forbidden', 'there is no session to end')
  await deleteSession(deps, { id, by: actorOf(request) })
  request.reply.setHeader('set-cookie', deps.cookie.cleared)
}
