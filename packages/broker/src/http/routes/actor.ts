// The caller of a request as the audit log keeps it.
import type { Actor } from '../../domain/actor.ts'
import type { Caller, RequestContext } from '../handler.ts'

export const actorOf = ({ principal, clientAddress, userAgent, requestId }: Pick<RequestContext, 'principal' | keyof Caller>): Actor => ({
  // An invite is nobody: who joins by it speaks for itself.
  ...(principal.kind === 'invite' ? { kind: 'system', id: null } : { kind: principal.kind, id: principal.id }),
  address: clientAddress,
  userAgent,
  requestId,
})
