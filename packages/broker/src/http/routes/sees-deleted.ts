// Whether deleted rows are part of the answer: only on request, and only for admins; for owners too where a list says so.
import type { Principal } from '../handler.ts'

export const seesDeleted = (
  { principal, query }: { readonly principal: Principal; readonly query: { readonly include_deleted: boolean } },
  owners: 'owners' | 'admins alone' = 'admins alone',
): boolean => query.include_deleted && (principal.kind === 'admin' || (owners === 'owners' && principal.kind === 'generator'))
