// Revokes an admin key. The last one that may do everything stays: without it nobody could make another.
import { ApiError } from '@brokkr/contract/error.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { refuseWiderScope } from '../domain/scope.ts'
import * as adminRole from '../store/admin-role.ts'
import type { Sql } from '../store/sql.ts'

export interface RevokeAdminPak {
  readonly id: string
  readonly callerScope: readonly string[] | null
  readonly by: Actor
}

export async function revokeAdminPak(deps: { sql: Sql; wakeFeed: () => void }, input: RevokeAdminPak): Promise<void> {
  await deps.sql.begin(async (sql) => {
    // Two that revoke the last two keys at once must not both find the other's still there.
    await adminRole.lock(sql, {})
    const standing = await adminRole.standing(sql, { id: input.id })
    if (standing === null) throw new ApiError('not_found', 'no admin key has this id')
    refuseWiderScope(input.callerScope, standing.scope)
    if (standing.is_full && standing.other_full === 0)
      throw new ApiError('last_admin_pak', 'this is the last key that may do everything: create another one first')
    await adminRole.markDeleted(sql, { id: input.id })
    await recordDeed(sql, { by: input.by, action: 'pak.deleted', on: { type: 'pak', id: input.id }, details: { name: standing.name } })
  })
  deps.wakeFeed()
}
