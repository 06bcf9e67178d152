// Agents with what was last heard of them (agent_liveness, kept apart so that a heartbeat rewrites one small row).
import { Agent } from '@brokkr/contract/agent.ts'
import { z } from 'zod'
import { carries, type MarkFilter } from './carries.ts'
import { count, lookUp, maybe, type NameKey, rows, type Slots, touched } from './sql.ts'

const columns = `a.id, a.name, a.cluster_name, a.status, l.last_heartbeat, l.k8s_reachable, l.k8s_api_latency_ms, l.k8s_reported_at,
  a.created_at, a.updated_at, a.deleted_at, a.connection_state, l.last_seen_at, a.agent_version, a.facts`
const source = `agents a left join agent_liveness l on l.agent_id = a.id`

export const insert = count(
  'agents.insert',
  (
    p: Slots<{
      id: string
      name: string
      cluster_name: string
      status: string
      pak_hash: string
      pak_short: string
      invited_generator_ids: string[]
      /** Of an agent that joined. */
      invite_id?: string
      agent_version?: string
    }>,
  ) => `
  with made as (
    insert into agents (id, name, cluster_name, status, pak_hash, pak_short, invited_generator_ids, invite_id, agent_version)
    values (${p.id}, ${p.name}, ${p.cluster_name}, ${p.status}, ${p.pak_hash}, ${p.pak_short}, ${p.invited_generator_ids}::uuid[],
      ${p.invite_id}::uuid, ${p.agent_version}::text) returning id)
  insert into agent_liveness (agent_id) select id from made`,
)

export const get = lookUp(
  'agents.get',
  Agent,
  (p: Slots<{ id: string; with_deleted?: boolean }>) => `
  select ${columns} from ${source} where a.id = ${p.id}::uuid and (a.deleted_at is null or ${p.with_deleted}::boolean)`,
)

export const find = maybe(
  'agents.find',
  Agent,
  (p: Slots<{ name: string; cluster_name: string }>) => `
  select ${columns} from ${source} where a.name = ${p.name}::text and a.cluster_name = ${p.cluster_name}::text and a.deleted_at is null`,
)

export interface AgentFilter extends MarkFilter {
  readonly name: string | null
  readonly status: string | null
  /** Only those registered with this generator. */
  readonly generator_id: string | null
}
/** Three ways in, so that each is led by its own index. */
const listing = (name: string, led: (p: Slots<AgentFilter>) => string) =>
  rows(
    `agents.${name}`,
    Agent,
    (p: Slots<AgentFilter & NameKey & { limit: number }>) => `
  select ${columns} from ${source}
  where ${led(p)} and (a.name, a.id) > (${p.after_name}::text, ${p.after_id}::uuid)
    and (${p.name}::text is null or a.name = ${p.name}) and (${p.status}::text is null or a.status = ${p.status})
    and (${p.generator_id}::uuid is null
         or a.id in (select r.agent_id from agent_generator_registrations r where r.generator_id = ${p.generator_id}))
    and ${carries(p, { labels: 'agent_labels', annotations: 'agent_annotations', owner: 'agent_id', is: 'a.id' })}
  order by a.name, a.id limit ${p.limit}::int`,
  )
export const list = listing('list', () => 'a.deleted_at is null')
export const listNamed = listing('listNamed', (p) => `a.deleted_at is null and a.name = ${p.name}::text`)
export const listWithDeleted = listing('listWithDeleted', () => 'true')

/** Held until the transaction ends, so that what was read is still true when it is changed. */
export const lock = maybe(
  'agents.lock',
  z.object({ id: z.string(), name: z.string(), cluster_name: z.string(), status: z.string(), updated_at: z.string() }),
  (p: Slots<{ id: string }>) => `
  select id, name, cluster_name, status, updated_at from agents where id = ${p.id}::uuid and deleted_at is null for no key update`,
)

export const update = count(
  'agents.update',
  (p: Slots<{ id: string; name: string; cluster_name: string; status: string }>) => `
  update agents set name = ${p.name}, cluster_name = ${p.cluster_name}, status = ${p.status}, ${touched} where id = ${p.id}::uuid`,
)

export const setPak = count(
  'agents.setPak',
  (p: Slots<{ id: string; pak_hash: string; pak_short: string }>) => `
  update agents set pak_hash = ${p.pak_hash}, pak_short = ${p.pak_short}, ${touched} where id = ${p.id}::uuid and deleted_at is null`,
)

/** What of an agent goes with it: pairs, marks, registrations, and what it reported of stacks. Nothing is removed in its cluster. */
export const markDeleted = maybe(
  'agents.markDeleted',
  z.object({ deleted_at: z.string() }),
  (p: Slots<{ id: string }>) => `
  with events as (update agent_events set deleted_at = now(), updated_at = now() where agent_id = ${p.id}::uuid and deleted_at is null),
    labels as (delete from agent_labels where agent_id = ${p.id}::uuid),
    annotations as (delete from agent_annotations where agent_id = ${p.id}::uuid),
    registrations as (delete from agent_generator_registrations where agent_id = ${p.id}::uuid)
  update agents set deleted_at = now(), ${touched} where id = ${p.id}::uuid and deleted_at is null returning deleted_at`,
)

const Invited = z.object({ invited_generator_ids: z.array(z.string()) })
export const invitedGenerators = maybe(
  'agents.invitedGenerators',
  Invited,
  (p: Slots<{ id: string }>) => `
  select invited_generator_ids from agents where id = ${p.id}::uuid and deleted_at is null`,
)

/** Who joined by this invite under this key. */
export const joinedBy = maybe(
  'agents.joinedBy',
  Agent,
  (p: Slots<{ invite_id: string; pak_hash: string }>) => `
  select ${columns} from ${source} where a.pak_hash = ${p.pak_hash}::text and a.invite_id = ${p.invite_id}::uuid and a.deleted_at is null`,
)

/** A sign of life: written before the answer, so that a read right after it shows it. */
export const recordHeartbeat = maybe(
  'agents.recordHeartbeat',
  z.object({ is_connected: z.boolean(), has_news: z.boolean() }),
  (
    p: Slots<{
      agent_id: string
      k8s_reachable: boolean | null
      k8s_api_latency_ms: number | null
      agent_version: string | null
      facts: string | null
    }>,
  ) => `
  with seen as (update agent_liveness set last_heartbeat = now(), last_seen_at = now(),
    k8s_reachable = coalesce(${p.k8s_reachable}::boolean, k8s_reachable),
    k8s_api_latency_ms = case when ${p.k8s_reachable}::boolean is null then k8s_api_latency_ms else ${p.k8s_api_latency_ms}::int end,
    k8s_reported_at = case when ${p.k8s_reachable}::boolean is null then k8s_reported_at else now() end
  where agent_id = ${p.agent_id}::uuid returning agent_id)
  select a.connection_state = 'connected' as is_connected,
    a.agent_version is distinct from coalesce(${p.agent_version}::text, a.agent_version) or a.facts is distinct from coalesce(${p.facts}::jsonb, a.facts) as has_news
  from seen join agents a on a.id = seen.agent_id`,
)

/** The same of many agents. Rows that somebody holds are passed over, so that nobody waits for another's: what is not returned was not
 *  written. No agent may be named twice. */
export const recordHeartbeats = rows(
  'agents.recordHeartbeats',
  z.object({ agent_id: z.string(), is_connected: z.boolean(), has_news: z.boolean() }),
  (
    p: Slots<{
      agent_ids: string[]
      k8s_reachable: (boolean | null)[]
      k8s_api_latency_ms: (number | null)[]
      agent_versions: (string | null)[]
      facts: (string | null)[]
    }>,
  ) => `
  with free as materialized (
    select agent_id from agent_liveness where agent_id = any(${p.agent_ids}::uuid[]) order by agent_id for no key update skip locked),
  seen as (update agent_liveness l set last_heartbeat = now(), last_seen_at = now(),
    k8s_reachable = coalesce(g.k8s_reachable, l.k8s_reachable),
    k8s_api_latency_ms = case when g.k8s_reachable is null then l.k8s_api_latency_ms else g.k8s_api_latency_ms end,
    k8s_reported_at = case when g.k8s_reachable is null then l.k8s_reported_at else now() end
  from unnest(${p.agent_ids}::uuid[], ${p.k8s_reachable}::boolean[], ${p.k8s_api_latency_ms}::int[], ${p.agent_versions}::text[], ${p.facts}::text[])
    as g (agent_id, k8s_reachable, k8s_api_latency_ms, agent_version, facts) join free using (agent_id)
  where l.agent_id = free.agent_id returning l.agent_id, g.agent_version, g.facts)
  select a.id as agent_id, a.connection_state = 'connected' as is_connected,
    a.agent_version is distinct from coalesce(seen.agent_version, a.agent_version)
      or a.facts is distinct from coalesce(seen.facts::jsonb, a.facts) as has_news
  from seen join agents a on a.id = seen.agent_id`,
)

export const setFacts = count(
  'agents.setFacts',
  (p: Slots<{ agent_id: string; agent_version: string | null; facts: string | null }>) => `
  update agents set agent_version = coalesce(${p.agent_version}::text, agent_version), facts = coalesce(${p.facts}::jsonb, facts) where id = ${p.agent_id}::uuid`,
)

/** By compare-and-set, so that one of many processes makes the transition. */
export const markConnected = maybe(
  'agents.markConnected',
  z.object({ agent_id: z.string(), name: z.string(), cluster_name: z.string(), connected_at: z.string() }),
  (p: Slots<{ agent_id: string }>) => `
  update agents set connection_state = 'connected', connected_at = now() where id = ${p.agent_id}::uuid and connection_state <> 'connected'
  returning id as agent_id, name, cluster_name, connected_at`,
)

/** Before a report is stored: whether its agent is silent stays as it is until the transaction ends, and reports of one agent come one
 *  after the other, because each locks rows of its stacks that another may have only just made. */
export const lockForReport = count(
  'agents.lockForReport',
  (p: Slots<{ id: string }>) => `select id from agents where id = ${p.id}::uuid for no key update`,
)

/** A sign of life that is no heartbeat: a status report. */
export const touch = count(
  'agents.touch',
  (p: Slots<{ agent_id: string }>) => `update agent_liveness set last_seen_at = now() where agent_id = ${p.agent_id}::uuid`,
)

/** Of these, what the keys of the live ones look like now. */
export const keyMarks = rows(
  'agents.keyMarks',
  z.object({ id: z.string(), key_mark: z.string().nullable() }),
  (p: Slots<{ ids: string[] }>) => `
  select id, md5(pak_hash) as key_mark from agents where id = any(${p.ids}::uuid[]) and deleted_at is null`,
)

export const unheardAmong = rows(
  'agents.unheardAmong',
  z.object({ id: z.string() }),
  (p: Slots<{ ids: string[]; seconds: number }>) => `
  select agent_id as id from agent_liveness
  where agent_id = any(${p.ids}::uuid[]) and coalesce(last_seen_at < now() - ${p.seconds}::float8 * interval '1 second', true)`,
)

/** A batch of those unseen for too long, by database time; rows another process handles are passed over. The weaker lock, because
 *  whoever targets meanwhile refers to these agents and is waited for by their counts. */
export const markSilent = rows(
  'agents.markSilent',
  z.object({ agent_id: z.string(), name: z.string(), cluster_name: z.string(), last_seen_at: z.string(), at: z.string() }),
  (p: Slots<{ silent_seconds: number; limit: number }>) => `
  with silent as materialized (
    select a.id, l.last_seen_at from agents a join agent_liveness l on l.agent_id = a.id
    where a.connection_state = 'connected' and a.deleted_at is null and l.last_seen_at < now() - ${p.silent_seconds}::float8 * interval '1 second'
    order by a.id limit ${p.limit}::int for no key update of a skip locked)
  update agents a set connection_state = 'disconnected' from silent where a.id = silent.id
  returning a.id as agent_id, a.name, a.cluster_name, silent.last_seen_at, now() as at`,
)
