// Whether a response includes deleted rows: only on request, for admins and, where a list allows it, for owners.
import type { Principal } from '../server/handler.ts'

export const includesDeleted = (
  { principal, query }: { readonly principal: Principal; readonly query: { readonly include_deleted: boolean } },
  owners: 'owners' | 'admins alone' = 'admins alone',
): boolean => query.include_deleted && (principal.kind === 'admin' || (owners === 'owners' && principal.kind === 'generator'))
