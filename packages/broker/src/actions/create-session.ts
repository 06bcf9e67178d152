// A person signs in with a key: a session that opens what the key opens, for a while. The token leaves the broker once, in
// a cookie; stored is its hash.
import { hash, randomBytes } from 'node:crypto'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { uuid7 } from '../domain/uuid7.ts'
import * as consoleSessions from '../store/console-sessions.ts'
import type { Sql } from '../store/sql.ts'

export interface NewSession {
  readonly identity: { readonly kind: string; readonly id: string }
  readonly readonly: boolean
  readonly seconds: number
  readonly idleSeconds: number
  readonly by: Actor
}
export interface MadeSession {
  readonly token: string
  readonly expires_at: string
  readonly readonly: boolean
}
/** Of one identity; the oldest goes first. */
const sessionsMax = 100

export async function createSession(deps: { sql: Sql; wakeFeed: () => void }, input: NewSession): Promise<MadeSession> {
  const token = randomBytes(32).toString('base64url')
  const id = uuid7()
  const identity = { identity_kind: input.identity.kind, identity_id: input.identity.id }
  const made = await deps.sql.begin(async (sql) => {
    const inserted = await consoleSessions.insert(sql, {
      ...identity,
      id,
      token_hash: hash('sha256', token),
      readonly: input.readonly,
      seconds: input.seconds,
      idle_seconds: input.idleSeconds,
    })
    await consoleSessions.keepNewest(sql, { ...identity, keep: sessionsMax })
    await recordDeed(sql, { by: input.by, action: 'auth.success', on: { type: 'pak', id: input.identity.id } })
    await recordDeed(sql, { by: input.by, action: 'session.created', on: { type: 'session', id }, details: { readonly: input.readonly } })
    return inserted
  })
  deps.wakeFeed()
  return { token, expires_at: made.expires_at, readonly: input.readonly }
}
