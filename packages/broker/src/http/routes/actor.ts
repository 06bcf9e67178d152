// The caller of a request as the audit log keeps it.
import type { Actor } from '../../domain/actor.ts'
import type { RequestContext } from '../handler.ts'

export const actorOf = ({ principal, clientAddress, userAgent, requestId }: RequestContext): Actor => ({
  kind: principal.kind,
  id: principal.id,
  address: clientAddress,
  userAgent,
  requestId,
})
