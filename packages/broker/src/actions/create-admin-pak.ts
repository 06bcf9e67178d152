// Creates an admin key: named, perhaps read-only, limited to verbs, or ending at a time. The clear text is in the answer and
// nowhere else.
import type { AdminPak } from '@brokkr/contract/admin.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import { makePak } from '@brokkr/contract/pak.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { requireName } from '../domain/names.ts'
import { refuseWiderScope } from '../domain/scope.ts'
import { uuid7 } from '../domain/uuid7.ts'
import * as adminRole from '../store/admin-role.ts'
import type { Sql } from '../store/sql.ts'

export interface NewAdminPak {
  readonly name: string
  readonly readonly?: boolean | undefined
  readonly scope?: readonly string[] | null | undefined
  readonly expires_at?: string | null | undefined
  /** Of the key that makes it: none grants more than it has. */
  readonly callerScope: readonly string[] | null
  readonly by: Actor
}

export async function createAdminPak(deps: { sql: Sql; wakeFeed: () => void }, input: NewAdminPak): Promise<AdminPak & { pak: string }> {
  const scope = input.scope === undefined || input.scope === null ? null : [...new Set(input.scope)]
  refuseWiderScope(input.callerScope, scope)
  const expires_at = requireFuture(input.expires_at ?? null)
  const made = await makePak()
  const row = { id: uuid7(), name: requireName(input.name, 'name'), readonly: input.readonly ?? false, scope, expires_at }
  const created = await deps.sql.begin(async (sql) => {
    const inserted = await adminRole.insert(sql, { ...row, pak_hash: made.hash, pak_short: made.short })
    const { name, short_token, readonly } = inserted
    const details = { name, short_token, readonly, scope, expires_at: inserted.expires_at }
    await recordDeed(sql, { by: input.by, action: 'pak.created', on: { type: 'pak', id: inserted.id }, details })
    return inserted
  })
  deps.wakeFeed()
  return { ...created, pak: made.pak }
}

function requireFuture(expiresAt: string | null): string | null {
  if (expiresAt === null || Date.parse(expiresAt) > Date.now()) return expiresAt
  const message = 'must be a time to come'
  throw new ApiError('validation_failed', `expires_at ${message}`, { details: { errors: [{ path: 'expires_at', message }] } })
}
