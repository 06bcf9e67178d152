// Console sessions. Their rights are read from their PAK, so that restricting the PAK restricts its sessions.
import { count, maybe, one, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

export interface NewSession {
  readonly id: string
  readonly token_hash: string
  readonly identity_kind: string
  readonly identity_id: string
  readonly readonly: boolean
  readonly seconds: number
  readonly idle_seconds: number
}
export const insert = one(
  'console_sessions.insert',
  z.object({ expires_at: z.string() }),
  (p: Slots<NewSession>) => `
  insert into console_sessions (id, token_hash, identity_kind, identity_id, readonly, expires_at, idle_until)
  values (${p.id}, ${p.token_hash}, ${p.identity_kind}, ${p.identity_id}, ${p.readonly}, now() + ${p.seconds}::float8 * interval '1 second',
          now() + least(${p.seconds}, ${p.idle_seconds}::float8) * interval '1 second')
  returning expires_at`,
)

/** Deletes the oldest sessions of an identity above the limit. */
export const keepNewest = count(
  'console_sessions.keepNewest',
  (p: Slots<{ identity_kind: string; identity_id: string; keep: number }>) => `
  delete from console_sessions where id in (
    select id from console_sessions where identity_kind = ${p.identity_kind} and identity_id = ${p.identity_id}::uuid
    order by created_at desc, id desc offset ${p.keep}::int limit 1000)`,
)

const Row = z.object({
  kind: z.enum(['admin', 'generator']),
  id: z.string(),
  name: z.string(),
  pak_hash: z.string(),
  readonly: z.boolean(),
  scope: z.array(z.string()).nullable(),
  expires_in_ms: z.number(),
  is_active: z.boolean(),
  session: z.string(),
  idle_in_ms: z.number(),
})
/** Same columns as the lookup of a PAK, by the hash of the session token. */
export const findByHash = maybe(
  'console_sessions.findByHash',
  Row,
  (p: Slots<{ hash: string }>) => `
  select i.kind, i.id, i.name, s.token_hash as pak_hash, s.readonly or i.readonly as readonly, i.scope, i.is_active, s.id as session,
         (extract(epoch from least(s.expires_at, i.expires_at) - now()) * 1000)::float8 as expires_in_ms,
         (extract(epoch from s.idle_until - now()) * 1000)::float8 as idle_in_ms
  from console_sessions s cross join lateral (
    select 'admin' as kind, id, name, readonly, scope, expires_at, true as is_active from admin_role
    where s.identity_kind = 'admin' and id = s.identity_id and deleted_at is null and (expires_at is null or expires_at > now())
    union all
    select 'generator', id, name, false, null, null, is_active from generators
    where s.identity_kind = 'generator' and id = s.identity_id and deleted_at is null) i
  where s.token_hash = ${p.hash} and s.expires_at > now() and s.idle_until > now()`,
)

export const remove = count(
  'console_sessions.remove',
  (p: Slots<{ id: string }>) => `delete from console_sessions where id = ${p.id}::uuid`,
)

export const touch = count(
  'console_sessions.touch',
  (p: Slots<{ ids: string[]; idle_seconds: number }>) => `
  update console_sessions set idle_until = least(expires_at, now() + ${p.idle_seconds}::float8 * interval '1 second')
  where id = any(${p.ids}::uuid[]) and idle_until > now()`,
)

/** A batch of ended sessions; change rows notify processes with open streams. */
export const removeEnded = count(
  'console_sessions.removeEnded',
  (p: Slots<{ limit: number }>) => `
  delete from console_sessions where id in (
    select id from console_sessions where expires_at <= now() or idle_until <= now() limit ${p.limit}::int)`,
)
