// Creates an admin PAK with a name and, optionally, read-only access, a scope of verbs and an expiry. Only the response contains the
// clear text.
import type { AdminPak } from '@brokkr/contract/auth/admin-pak.ts'
import { generatePak, type PakForm } from '@brokkr/contract/auth/pak.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { requireName } from '../../rules/names.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import * as adminRole from '../store/admin-role.ts'
import { requireWithinCaller } from './require-within-caller.ts'

export interface NewAdminPak {
  readonly name: string
  readonly readonly?: boolean | undefined
  readonly scope?: readonly string[] | null | undefined
  readonly expires_at?: string | null | undefined
  /** The new PAK may not have a wider scope or a later expiry than the PAK of this actor. */
  readonly actor: Actor
}

export async function createAdminPak(
  deps: { sql: Sql; wakeFeed: () => void; pakForm?: PakForm },
  input: NewAdminPak,
): Promise<AdminPak & { pak: string }> {
  const scope = input.scope === undefined || input.scope === null ? null : [...new Set(input.scope)]
  const expires_at = requireFuture(input.expires_at ?? null)
  const newPak = await generatePak(deps.pakForm)
  const row = { id: uuid7(), name: requireName(input.name, 'name'), readonly: input.readonly ?? false, scope, expires_at }
  const adminPakRow = await deps.sql.begin(async (sql) => {
    await requireWithinCaller(sql, input.actor, row)
    const adminPak = await adminRole.insert(sql, { ...row, pak_hash: newPak.hash, pak_short: newPak.short })
    const { name, short_token, readonly } = adminPak
    const details = { name, short_token, readonly, scope, expires_at: adminPak.expires_at }
    await recordAuditEntry(sql, { actor: input.actor, action: 'pak.created', resource: { type: 'pak', id: adminPak.id }, details })
    return adminPak
  })
  deps.wakeFeed()
  return { ...adminPakRow, pak: newPak.pak }
}

function requireFuture(expiresAt: string | null): string | null {
  if (expiresAt === null || Date.parse(expiresAt) > Date.now()) return expiresAt
  const message = 'must be in the future'
  throw new ApiError('validation_failed', `expires_at ${message}`, { details: { errors: [{ path: 'expires_at', message }] } })
}
