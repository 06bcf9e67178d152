// Limits the rights that a caller grants to those of its own admin PAK. The PAK is read in the transaction of the action.
import type { AdminPak } from '@brokkr/contract/auth/admin-pak.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import type { Actor } from '../../audit/rules.ts'
import { refuseLaterEnd, refuseWiderScope } from '../rules.ts'
import * as adminRole from '../store/admin-role.ts'

export interface AdminRights {
  readonly scope: readonly string[] | null
  readonly expires_at: string | null
}

/** Rejects a PAK with a wider scope or a later expiry than the caller's. */
export async function requireWithinCaller(sql: Sql, actor: Actor, requested: AdminRights): Promise<void> {
  const caller = await readCaller(sql, actor)
  if (caller === null) return
  refuseWiderScope(caller.scope, requested.scope)
  refuseLaterEnd(caller.expires_at, requested.expires_at)
}

/** A revocation grants nothing, so it compares the scope and not the expiry. */
export async function requireScopeOfCaller(sql: Sql, actor: Actor, scope: readonly string[] | null): Promise<void> {
  const caller = await readCaller(sql, actor)
  if (caller !== null) refuseWiderScope(caller.scope, scope)
}

/** null for commands on the database, which have all rights. */
async function readCaller(sql: Sql, actor: Actor): Promise<AdminPak | null> {
  if (actor.kind === 'system') return null
  const caller = actor.kind === 'admin' && actor.id !== null ? await adminRole.get(sql, { id: actor.id }) : null
  if (caller === null) throw new ApiError('unauthorized', 'the PAK was revoked')
  return caller
}
