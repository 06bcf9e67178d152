// The actor of a request for the audit log.
import type { Actor } from '../../audit/rules.ts'
import type { Caller, RequestContext } from '../server/handler.ts'

export const toActor = ({ principal, clientAddress, userAgent, requestId }: Pick<RequestContext, 'principal' | keyof Caller>): Actor => ({
  // An invite is not an actor; the joining agent is recorded as itself. Likewise the session of a sign-in link.
  ...(principal.kind === 'invite' || principal.kind === 'link' ? { kind: 'system', id: null } : { kind: principal.kind, id: principal.id }),
  address: clientAddress,
  userAgent,
  requestId,
})
