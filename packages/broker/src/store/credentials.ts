// Whose key is this: admins, agents, generators in that order, by hash through partial indexes, in one statement.
import { z } from 'zod'
import { lookUp, type Slots } from './sql.ts'

const Row = z.object({
  kind: z.enum(['admin', 'agent', 'generator']),
  id: z.string(),
  name: z.string(),
  pak_hash: z.string(),
  readonly: z.boolean(),
  scope: z.array(z.string()).nullable(),
  /** From the look-up on, by the database's clock. */
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
