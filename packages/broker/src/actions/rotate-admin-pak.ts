// Replaces an admin key by a new one. The old one is dead with the commit: a trigger tells every process and ends its sessions.
import type { AdminPak } from '@brokkr/contract/admin.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import { makePak } from '@brokkr/contract/pak.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { refuseWiderScope } from '../domain/scope.ts'
import * as adminRole from '../store/admin-role.ts'
import type { Sql } from '../store/sql.ts'

export interface RotateAdminPak {
  readonly id: string
  readonly callerScope: readonly string[] | null
  readonly by: Actor
}

export async function rotateAdminPak(deps: { sql: Sql; wakeFeed: () => void }, input: RotateAdminPak): Promise<AdminPak & { pak: string }> {
  const made = await makePak()
  const rotated = await deps.sql.begin((sql) => setAdminKey(sql, input, { hash: made.hash, short: made.short }))
  deps.wakeFeed()
  return { ...rotated, pak: made.pak }
}

/** Also for a hash whose clear text somebody else keeps. */
export async function setAdminKey(sql: Sql, input: RotateAdminPak, key: { hash: string; short: string | null }): Promise<AdminPak> {
  const before = await adminRole.get(sql, { id: input.id })
  if (before === null) throw new ApiError('not_found', 'no admin key has this id')
  refuseWiderScope(input.callerScope, before.scope)
  const rotated = await adminRole.setKey(sql, { id: input.id, pak_hash: key.hash, pak_short: key.short })
  if (rotated === null) throw new ApiError('not_found', 'no admin key has this id')
  const details = { name: rotated.name, short_token: rotated.short_token }
  await recordDeed(sql, { by: input.by, action: 'pak.rotated', on: { type: 'pak', id: rotated.id }, details })
  return rotated
}
