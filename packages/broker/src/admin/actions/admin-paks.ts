// Admin PAKs: create, rotate and revoke. A caller manages only PAKs within the rights of its own.
import type { AdminPak } from '@brokkr/contract/auth/admin-pak.ts'
import { generatePak, type PakForm } from '@brokkr/contract/auth/pak.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { requireName } from '../../rules/names.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import * as adminRole from '../store/admin-role.ts'

// Creates an admin PAK with a name and, optionally, read-only access, a scope of verbs and an expiry. Only the response contains the
// clear text.

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

// Replaces the secret of an admin PAK. The old one is invalid after the commit: a trigger notifies every process and ends its sessions.

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

// Revokes an admin PAK. The last PAK with full rights cannot be revoked, because no other PAK could create a new one.

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

// Limits the rights that a caller grants to those of its own admin PAK. The PAK is read in the transaction of the action.

export interface AdminRights {
  readonly scope: readonly string[] | null
  readonly expires_at: string | null
}

/** Rejects a PAK with a wider scope or a later expiry than the caller's. */
async function requireWithinCaller(sql: Sql, actor: Actor, requested: AdminRights): Promise<void> {
  const caller = await readCaller(sql, actor)
  if (caller === null) return
  refuseWiderScope(caller.scope, requested.scope)
  refuseLaterEnd(caller.expires_at, requested.expires_at)
}

/** A revocation grants nothing, so it compares the scope and not the expiry. */
async function requireScopeOfCaller(sql: Sql, actor: Actor, scope: readonly string[] | null): Promise<void> {
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

// An admin PAK manages only PAKs within its own rights; otherwise it could create one with more rights.

const allVerbs = ['read', 'deploy', 'operate', 'approve', 'notify', 'admin']

/** A null scope allows all verbs. */
function refuseWiderScope(callerValue: readonly string[] | null, requested: readonly string[] | null): void {
  if (callerValue === null) return
  const verb = (requested ?? allVerbs).find((each) => !callerValue.includes(each))
  if (verb === undefined) return
  throw new ApiError('scope_denied', 'an admin PAK with a scope manages only PAKs within that scope', { details: { verb } })
}

/** A null expiry means never. */
function refuseLaterEnd(callerValue: string | null, requested: string | null): void {
  if (callerValue === null || (requested !== null && Date.parse(requested) <= Date.parse(callerValue))) return
  const message = `an admin PAK that expires cannot create or rotate one that outlives it: set expires_at to ${callerValue} or earlier`
  throw new ApiError('scope_denied', message, { details: { expires_at: callerValue } })
}
