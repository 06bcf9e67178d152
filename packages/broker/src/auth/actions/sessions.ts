// Console sessions: create and delete.
import { hash, randomBytes } from 'node:crypto'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import * as consoleSessions from '../store/console-sessions.ts'
import { requirePak } from './paks.ts'

// Creates a console session with the rights of a PAK. The token is sent once, in a cookie; only its hash is stored.

export interface NewSession {
  readonly identity: { readonly kind: string; readonly id: string }
  readonly readonly: boolean
  readonly seconds: number
  readonly idleSeconds: number
  readonly actor: Actor
  /** Added to the audit entry of the session. */
  readonly details?: Readonly<Record<string, unknown>>
}
export interface CreatedSession {
  readonly token: string
  readonly expires_at: string
  readonly readonly: boolean
}
/** Per identity; the oldest sessions are deleted first. */
const sessionsMax = 100

/** `pakHash`: of the PAK that the caller sent. */
export async function createSession(
  deps: { sql: Sql; wakeFeed: () => void },
  { pakHash, ...input }: NewSession & { readonly pakHash: string | null },
): Promise<CreatedSession> {
  const session = await deps.sql.begin(async (sql) => {
    await requirePak(sql, input.identity, pakHash)
    return insertSession(sql, input)
  })
  deps.wakeFeed()
  return session
}

/** In the transaction of the caller, which holds the PAK. */
export async function insertSession(sql: Sql, input: NewSession): Promise<CreatedSession> {
  const token = randomBytes(32).toString('base64url')
  const id = uuid7()
  const identity = { identity_kind: input.identity.kind, identity_id: input.identity.id }
  const { expires_at } = await consoleSessions.insert(sql, {
    ...identity,
    id,
    token_hash: hash('sha256', token),
    readonly: input.readonly,
    seconds: input.seconds,
    idle_seconds: input.idleSeconds,
  })
  await consoleSessions.keepNewest(sql, { ...identity, keep: sessionsMax })
  await recordAuditEntry(sql, { actor: input.actor, action: 'auth.success', resource: { type: 'pak', id: input.identity.id } })
  await recordAuditEntry(sql, {
    actor: input.actor,
    action: 'session.created',
    resource: { type: 'session', id },
    details: { readonly: input.readonly, ...input.details },
  })
  return { token, expires_at, readonly: input.readonly }
}

/** Ends a console session in every broker process. */
export async function deleteSession(deps: { sql: Sql; wakeFeed: () => void }, input: { id: string; actor: Actor }): Promise<void> {
  await deps.sql.begin(async (sql) => {
    // A concurrent sign-out already deleted the session.
    if ((await consoleSessions.remove(sql, { id: input.id })) === 0) return
    await recordAuditEntry(sql, { actor: input.actor, action: 'session.deleted', resource: { type: 'session', id: input.id } })
  })
  deps.wakeFeed()
}
