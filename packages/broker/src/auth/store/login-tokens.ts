// One-time tokens of sign-in links, by the hash of their long part.
import { count, maybe, one, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

export interface NewLoginToken {
  readonly id: string
  readonly token_short: string
  readonly token_hash: string
  readonly identity_kind: string
  readonly identity_id: string
  readonly readonly: boolean
  readonly seconds: number
}
export const insert = one(
  'login_tokens.insert',
  z.object({ expires_at: z.string() }),
  (p: Slots<NewLoginToken>) => `
  insert into login_tokens (id, kind, token_short, token_hash, identity_kind, identity_id, readonly, expires_at)
  values (${p.id}, 'link', ${p.token_short}, ${p.token_hash}, ${p.identity_kind}, ${p.identity_id}, ${p.readonly},
          now() + ${p.seconds}::float8 * interval '1 second')
  returning expires_at`,
)

/** Deletes the oldest tokens of an identity above the limit. */
export const keepNewest = count(
  'login_tokens.keepNewest',
  (p: Slots<{ identity_kind: string; identity_id: string; keep: number }>) => `
  delete from login_tokens where id in (
    select id from login_tokens where identity_kind = ${p.identity_kind} and identity_id = ${p.identity_id}::uuid
    order by created_at desc, id desc offset ${p.keep}::int limit 1000)`,
)

const triesMax = 5
const isOpen = `used_at is null and expires_at > now() and tries < ${triesMax}`

/** Same columns as the lookup of a PAK. */
export const findByHash = maybe(
  'login_tokens.findByHash',
  z.object({
    kind: z.literal('link'),
    id: z.string(),
    name: z.string(),
    pak_hash: z.string(),
    readonly: z.boolean(),
    scope: z.array(z.string()).nullable(),
    expires_in_ms: z.number(),
    is_active: z.boolean(),
  }),
  (p: Slots<{ hash: string }>) => `
  select 'link' as kind, id, identity_kind as name, token_hash as pak_hash, readonly, null::text[] as scope, true as is_active,
         (extract(epoch from expires_at - now()) * 1000)::float8 as expires_in_ms
  from login_tokens where token_hash = ${p.hash} and ${isOpen}`,
)

/** A token with the short part of a link and a wrong long part. */
export const countWrongTry = count(
  'login_tokens.countWrongTry',
  (p: Slots<{ token_short: string }>) => `
  update login_tokens set tries = tries + 1 where token_short = ${p.token_short} and ${isOpen}`,
)

const Identity = z.object({ identity_kind: z.enum(['admin', 'generator']), identity_id: z.string(), readonly: z.boolean() })

export const get = maybe(
  'login_tokens.get',
  Identity,
  (p: Slots<{ id: string }>) => `select identity_kind, identity_id, readonly from login_tokens where id = ${p.id}::uuid`,
)

/** Of concurrent calls one gets 1: the others wait for its row lock and then find the token used. */
export const spend = count(
  'login_tokens.spend',
  (p: Slots<{ id: string }>) => `update login_tokens set used_at = now() where id = ${p.id}::uuid and ${isOpen}`,
)

/** A batch of tokens that ended. */
export const removeEnded = count(
  'login_tokens.removeEnded',
  (p: Slots<{ limit: number }>) => `
  delete from login_tokens where id in (select id from login_tokens where expires_at <= now() limit ${p.limit}::int)`,
)
