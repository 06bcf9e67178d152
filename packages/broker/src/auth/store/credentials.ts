// Lookup of a PAK by hash among admins, agents and generators, in one statement with partial indexes.
import { lookUp, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

const Row = z.object({
  kind: z.enum(['admin', 'agent', 'generator']),
  id: z.string(),
  name: z.string(),
  pak_hash: z.string(),
  readonly: z.boolean(),
  scope: z.array(z.string()).nullable(),
  /** Remaining time from the lookup on, by database time. */
  expires_in_ms: z.number().nullable(),
  is_active: z.boolean(),
})
export type CredentialRow = z.output<typeof Row>

export const findByHash = lookUp(
  'credentials.findByHash',
  Row,
  (p: Slots<{ hash: string }>) => `
  select kind, id, name, pak_hash, readonly, scope, (extract(epoch from expires_at - now()) * 1000)::float8 as expires_in_ms, is_active from (
    select 'admin' as kind, id, name, pak_hash, readonly, scope, expires_at, true as is_active from admin_role
    where pak_hash = ${p.hash}::text and deleted_at is null and (expires_at is null or expires_at > now())
    union all
    select 'agent', id, name, pak_hash, false, null, null, true from agents where pak_hash = ${p.hash}::text and deleted_at is null
    union all
    select 'generator', id, name, pak_hash, false, null, null, is_active from generators where pak_hash = ${p.hash}::text and deleted_at is null
  ) found limit 1`,
)

/** The live credentials among `ids` as `kind id`, with a fingerprint that changes with the PAK. */
export const fingerprints = rows(
  'credentials.fingerprints',
  z.object({ credential: z.string(), fingerprint: z.string() }),
  (p: Slots<{ ids: string[] }>) => `
  select 'admin ' || id as credential, md5(pak_hash) as fingerprint from admin_role
  where id = any(${p.ids}::uuid[]) and deleted_at is null and (expires_at is null or expires_at > now())
  union all
  select 'agent ' || id, md5(pak_hash) from agents where id = any(${p.ids}::uuid[]) and deleted_at is null and pak_hash is not null
  union all
  select 'generator ' || id, md5(pak_hash) from generators where id = any(${p.ids}::uuid[]) and deleted_at is null and pak_hash is not null and is_active
  union all
  select 'session ' || id, md5(token_hash) from console_sessions where id = any(${p.ids}::uuid[]) and expires_at > now() and idle_until > now()`,
)
