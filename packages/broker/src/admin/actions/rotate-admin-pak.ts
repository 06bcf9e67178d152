// Replaces the secret of an admin PAK. The old one is invalid after the commit: a trigger notifies every process and ends its sessions.
import type { AdminPak } from '@brokkr/contract/auth/admin-pak.ts'
import { generatePak, type PakForm } from '@brokkr/contract/auth/pak.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import * as adminRole from '../store/admin-role.ts'
import { requireWithinCaller } from './require-within-caller.ts'

export interface RotateAdminPak {
  readonly id: string
  readonly actor: Actor
}

export async function rotateAdminPak(
  deps: { sql: Sql; wakeFeed: () => void; pakForm?: PakForm },
  input: RotateAdminPak,
): Promise<AdminPak & { pak: string }> {
  const newPak = await generatePak(deps.pakForm)
  const adminPak = await deps.sql.begin((sql) => setAdminPak(sql, input, { hash: newPak.hash, short: newPak.short }))
  deps.wakeFeed()
  return { ...adminPak, pak: newPak.pak }
}

const revokedHash =
  'this PAK hash was revoked and cannot be used again: set the hash of a new PAK, or run brokkr broker create admin --name <name>'

/** Also used for a hash from the configuration, whose clear text the broker never sees. */
export async function setAdminPak(sql: Sql, input: RotateAdminPak, key: { hash: string; short: string | null }): Promise<AdminPak> {
  // The lock keeps the set of hashes unchanged between the check and the update.
  await adminRole.lock(sql, {})
  const current = await adminRole.get(sql, { id: input.id })
  if (current === null) throw new ApiError('not_found', 'no admin PAK has this id')
  await requireWithinCaller(sql, input.actor, current)
  if ((await adminRole.wasRevoked(sql, { pak_hash: key.hash })).revoked) throw new ApiError('validation_failed', revokedHash)
  const adminPak = await adminRole.setKey(sql, { id: input.id, pak_hash: key.hash, pak_short: key.short })
  if (adminPak === null) throw new ApiError('not_found', 'no admin PAK has this id')
  const details = { name: adminPak.name, short_token: adminPak.short_token }
  await recordAuditEntry(sql, { actor: input.actor, action: 'pak.rotated', resource: { type: 'pak', id: adminPak.id }, details })
  return adminPak
}
