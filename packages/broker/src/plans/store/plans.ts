// Plans and the results of their agents. Times are the database's; an agent that has not answered in time is shown as silent.
import { AgentId, StackId } from '@brokkr/contract/wire.ts'
import { count, maybe, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

const Row = z.object({
  id: z.string(),
  stack_id: StackId,
  base_sequence_id: z.int().nullable(),
  is_deletion_marker: z.boolean(),
  content_checksum: z.string(),
  target_digest: z.string(),
  expires_at: z.string(),
  created_at: z.string(),
})
const columns = `id, stack_id, base_sequence_id, is_deletion_marker, content_checksum, target_digest, expires_at, created_at`

export interface NewPlan {
  readonly id: string
  readonly stack_id: string
  readonly base_sequence_id: number | null
  readonly content_sealed: Buffer
  readonly content_checksum: string
  readonly is_deletion_marker: boolean
  readonly target_digest: string
  readonly by_kind: string
  readonly by_id: string | null
  readonly valid_seconds: number
}
export const insert = one(
  'plans.insert',
  Row,
  (p: Slots<NewPlan>) => `
  insert into plans (id, stack_id, base_sequence_id, content_sealed, content_checksum, is_deletion_marker, target_digest, by_kind, by_id, expires_at)
  values (${p.id}::uuid, ${p.stack_id}::uuid, ${p.base_sequence_id}::bigint, ${p.content_sealed}::bytea, ${p.content_checksum}, ${p.is_deletion_marker},
    ${p.target_digest}, ${p.by_kind}, ${p.by_id}::uuid, now() + ${p.valid_seconds}::float8 * interval '1 second')
  returning ${columns}`,
)

export const countOpen = one(
  'plans.countOpen',
  z.object({ open: z.int() }),
  (p: Slots<{ stack_id: string }>) => `select count(*) as open from plans where stack_id = ${p.stack_id}::uuid and expires_at > now()`,
)

/** The oldest open plan of this caller expires now; null if it has none. */
export const endOldest = maybe(
  'plans.endOldest',
  z.object({ id: z.string() }),
  (p: Slots<{ stack_id: string; by_kind: string; by_id: string | null }>) => `
  update plans set expires_at = now() where id = (
    select id from plans where stack_id = ${p.stack_id}::uuid and expires_at > now()
      and by_kind = ${p.by_kind} and by_id is not distinct from ${p.by_id}::uuid
    order by created_at, id limit 1)
  returning id`,
)

const Found = Row.extend({ generator_id: z.string(), is_expired: z.boolean() })
/** With the owner of its stack. */
export const get = maybe(
  'plans.get',
  Found,
  (p: Slots<{ id: string }>) => `
  select ${columns.replaceAll(/\w+/g, (name) => `p.${name}`)}, s.generator_id, p.expires_at <= now() as is_expired
  from plans p join stacks s on s.id = p.stack_id where p.id = ${p.id}::uuid`,
)

/** Targets of a stack in the order of the digest. */
export const listTargets = rows(
  'plans.listTargets',
  z.object({ agent_id: z.string() }),
  (p: Slots<{ stack_id: string }>) => `select agent_id from agent_targets where stack_id = ${p.stack_id}::uuid order by agent_id`,
)

/** One result per agent. An agent that cannot answer is silent from the start, with the reason. */
export const insertResults = count(
  'plans.insertResults',
  (p: Slots<{ plan_id: string; agent_ids: string[] }>) => `
  insert into plan_results (id, plan_id, agent_id, state, reason)
  select gen_random_uuid(), ${p.plan_id}::uuid, a.id, case when w.reason is null then 'waiting' else 'silent' end, w.reason
  from agents a cross join lateral (select case when a.connection_state <> 'connected' then 'disconnected'
    when not coalesce(a.facts->'capabilities' ? 'plans', false) then 'unsupported' end as reason) w
  where a.id = any(${p.agent_ids}::uuid[]) order by a.id`,
)

const Pending = z.object({ id: z.string(), stack_id: StackId, content_sealed: z.instanceof(Buffer), is_deletion_marker: z.boolean() })
/** Plans that wait for this agent, of stacks that are its targets now; at least one, then as many as fit. */
export const listPending = rows(
  'plans.listPending',
  Pending,
  (p: Slots<{ agent_id: string; limit: number; bytes: number }>) => `
  select p.id, p.stack_id, p.content_sealed, p.is_deletion_marker from (
    select r.plan_id, r.created_at, r.id, row_number() over listed as nth, sum(octet_length(w.content_sealed)) over listed as bytes
    from plan_results r join plans w on w.id = r.plan_id join agent_targets t on t.agent_id = r.agent_id and t.stack_id = w.stack_id
    where r.agent_id = ${p.agent_id}::uuid and r.state = 'waiting' and w.expires_at > now()
    window listed as (order by r.created_at, r.id)) q
  join plans p on p.id = q.plan_id
  where q.nth <= ${p.limit}::int and (q.nth = 1 or q.bytes <= ${p.bytes}::bigint) order by q.created_at, q.id`,
)

/** The row of an agent that the plan addressed and that the stack still targets; null otherwise. */
export const findResult = maybe(
  'plans.findResult',
  z.object({ id: z.string() }),
  (p: Slots<{ plan_id: string; agent_id: string }>) => `
  select r.id from plan_results r join plans p on p.id = r.plan_id join agent_targets t on t.agent_id = r.agent_id and t.stack_id = p.stack_id
  where r.plan_id = ${p.plan_id}::uuid and r.agent_id = ${p.agent_id}::uuid`,
)

export const putResult = count(
  'plans.putResult',
  (p: Slots<{ id: string; state: string; reason: string | null; summary: string; changes_sealed: Buffer }>) => `
  update plan_results set state = ${p.state}, reason = ${p.reason}, summary = ${p.summary}::jsonb, changes_sealed = ${p.changes_sealed}::bytea, at = now()
  where id = ${p.id}::uuid`,
)

const Result = z.object({
  id: z.string(),
  agent_id: AgentId,
  agent_name: z.string(),
  cluster_name: z.string(),
  state: z.string(),
  reason: z.string().nullable(),
  summary: z.unknown().nullable(),
  at: z.string().nullable(),
  changes_bytes: z.int(),
})
export type ResultRow = z.output<typeof Result>
/** Without the changes, which are read by id once it is clear how many fit. */
export const listResults = rows(
  'plans.listResults',
  Result,
  (p: Slots<{ plan_id: string; agent_id: string | null; answer_seconds: number }>) => `
  select r.id, r.agent_id, a.name as agent_name, a.cluster_name,
    case when late.is_late then 'silent' else r.state end as state, case when late.is_late then 'no_answer' else r.reason end as reason,
    r.summary, r.at, coalesce(octet_length(r.changes_sealed), 0) as changes_bytes
  from plan_results r join agents a on a.id = r.agent_id
  cross join lateral (select r.state = 'waiting' and r.created_at < now() - ${p.answer_seconds}::float8 * interval '1 second' as is_late) late
  where r.plan_id = ${p.plan_id}::uuid and (${p.agent_id}::uuid is null or r.agent_id = ${p.agent_id})
  order by a.name, a.id`,
)

export const listSealedChanges = rows(
  'plans.listSealedChanges',
  z.object({ id: z.string(), sealed: z.instanceof(Buffer) }),
  (p: Slots<{ ids: string[] }>) => `
  select id, changes_sealed as sealed from plan_results where id = any(${p.ids}::uuid[]) and changes_sealed is not null`,
)

/** Results go with their plans. */
export const removeExpired = count(
  'plans.removeExpired',
  (p: Slots<{ hours: number; limit: number }>) => `
  delete from plans where id in (
    select id from plans where expires_at < now() - ${p.hours}::float8 * interval '1 hour' order by expires_at limit ${p.limit}::int for update skip locked)`,
)
