// Revokes an admin PAK. The last PAK with full rights cannot be revoked, because no other PAK could create a new one.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import * as adminRole from '../store/admin-role.ts'
import { requireScopeOfCaller } from './require-within-caller.ts'

export interface RevokeAdminPak {
  readonly id: string
  readonly actor: Actor
}

export async function revokeAdminPak(deps: { sql: Sql; wakeFeed: () => void }, input: RevokeAdminPak): Promise<void> {
  await deps.sql.begin(async (sql) => {
    // Two concurrent revocations of the last two full PAKs must not both see the other PAK as live.
    await adminRole.lock(sql, {})
    const rights = await adminRole.rights(sql, { id: input.id })
    if (rights === null) throw new ApiError('not_found', 'no admin PAK has this id')
    await requireScopeOfCaller(sql, input.actor, rights.scope)
    if (rights.is_full && rights.other_full === 0)
      throw new ApiError('last_admin_pak', 'this is the last admin PAK with full rights: create another one first')
    await adminRole.markDeleted(sql, { id: input.id })
    await recordAuditEntry(sql, {
      actor: input.actor,
      action: 'pak.deleted',
      resource: { type: 'pak', id: input.id },
      details: { name: rights.name },
    })
  })
  deps.wakeFeed()
}
