// Agent invites. Expiry is decided by database time.
import { AgentInvite } from '@brokkr/contract/invites/agent-invite.ts'
import { count, lookUp, maybe, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'
import type { TimeKey } from '../schema/sql-fragments.ts'

const columns = `i.id, i.token_short as short_token, i.name, i.name_prefix, i.cluster_name, i.labels, i.annotations, i.generator_ids, i.preset,
  i.namespaces, i.uses, i.uses_left, i.approve, i.expires_at, i.revoked_at, i.created_by, i.created_at, i.updated_at,
  array(select a.id from agents a where a.invite_id = i.id and a.deleted_at is null order by a.id) as agents`
const isOpen = `i.revoked_at is null and i.expires_at > now()`

export interface NewInvite {
  readonly id: string
  readonly token_hash: string
  readonly token_short: string
  readonly name: string | null
  readonly name_prefix: string | null
  readonly cluster_name: string | null
  readonly labels: string[]
  /** A JSON object. */
  readonly annotations: string
  readonly generator_ids: string[]
  readonly preset: string
  readonly namespaces: string[]
  readonly uses: number
  readonly seconds: number
  readonly created_by: string
}
export const insert = one(
  'agent_invites.insert',
  AgentInvite,
  (p: Slots<NewInvite>) => `
  insert into agent_invites as i (id, token_hash, token_short, name, name_prefix, cluster_name, labels, annotations, generator_ids, preset,
    namespaces, uses, uses_left, expires_at, created_by)
  values (${p.id}::uuid, ${p.token_hash}, ${p.token_short}, ${p.name}, ${p.name_prefix}, ${p.cluster_name}, ${p.labels}::text[],
    ${p.annotations}::jsonb, ${p.generator_ids}::uuid[], ${p.preset}, ${p.namespaces}::text[], ${p.uses}::int, ${p.uses}::int,
    now() + ${p.seconds}::float8 * interval '1 second', ${p.created_by})
  returning ${columns}`,
)

export const get = lookUp(
  'agent_invites.get',
  AgentInvite,
  (p: Slots<{ id: string }>) => `select ${columns} from agent_invites i where i.id = ${p.id}::uuid`,
)

export const list = rows(
  'agent_invites.list',
  AgentInvite,
  (p: Slots<TimeKey & { limit: number }>) => `
  select ${columns} from agent_invites i where (i.created_at, i.id) < (${p.after_at}::timestamptz, ${p.after_id}::uuid)
  order by i.created_at desc, i.id desc limit ${p.limit}::int`,
)

const Credential = z.object({
  kind: z.literal('invite'),
  id: z.string(),
  name: z.string(),
  pak_hash: z.string(),
  readonly: z.boolean(),
  scope: z.array(z.string()).nullable(),
  expires_in_ms: z.number(),
  is_active: z.boolean(),
})
/** Same columns as the lookup of a PAK, by the hash of the join token. Also finds an invite without uses left, because an agent may repeat a
 *  join whose response was lost. */
export const findByHash = lookUp(
  'agent_invites.findByHash',
  Credential,
  (p: Slots<{ hash: string }>) => `
  select 'invite' as kind, i.id, coalesce(i.name, i.name_prefix, '') as name, i.token_hash as pak_hash, false as readonly, null::text[] as scope,
         (extract(epoch from i.expires_at - now()) * 1000)::float8 as expires_in_ms, true as is_active
  from agent_invites i where i.token_hash = ${p.hash}::text and ${isOpen}`,
)

const Locked = z.object({
  id: z.string(),
  name: z.string().nullable(),
  name_prefix: z.string().nullable(),
  cluster_name: z.string().nullable(),
  labels: z.array(z.string()),
  annotations: z.record(z.string(), z.string()),
  generator_ids: z.array(z.string()),
  is_open: z.boolean(),
  /** Database time at the start of the transaction. */
  now_ms: z.number(),
})
/** Serializes joins by one invite until the transaction ends, so that each sees the result of the previous one. */
export const lock = maybe(
  'agent_invites.lock',
  Locked,
  (p: Slots<{ id: string }>) => `
  select i.id, i.name, i.name_prefix, i.cluster_name, i.labels, i.annotations, i.generator_ids, ${isOpen} as is_open,
         (extract(epoch from now()) * 1000)::float8 as now_ms
  from agent_invites i where i.id = ${p.id}::uuid for no key update`,
)

/** 0 rows if the invite is used up, revoked or expired. */
export const spend = count(
  'agent_invites.spend',
  (p: Slots<{ id: string }>) => `
  update agent_invites i set uses_left = i.uses_left - 1, updated_at = now() where i.id = ${p.id}::uuid and i.uses_left > 0 and ${isOpen}`,
)

export const revoke = count(
  'agent_invites.revoke',
  (p: Slots<{ id: string }>) => `
  update agent_invites set revoked_at = now(), updated_at = now() where id = ${p.id}::uuid and revoked_at is null`,
)

/** A batch of invites that ended `days` ago or earlier. */
export const removeEnded = count(
  'agent_invites.removeEnded',
  (p: Slots<{ days: number; limit: number }>) => `
  delete from agent_invites where id in (
    select id from agent_invites where expires_at < now() - ${p.days}::float8 * interval '1 day' limit ${p.limit}::int)`,
)
