// Agents and their liveness. `agent_liveness` is a separate table so that a heartbeat rewrites one small row.
import { Agent } from '@brokkr/contract/agents/agent.ts'
import { count, lookUp, maybe, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'
import { type NameKey, touched } from '../../schema/sql-fragments.ts'
import { type LabelFilter, matchesLabels } from '../../targeting/store/labels.ts'
import { sessionStaleSeconds } from './agent-sessions.ts'

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
      /** Set for agents that joined by an invite. */
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

export interface AgentFilter extends LabelFilter {
  readonly name: string | null
  readonly status: string | null
  /** Only agents registered with this generator. */
  readonly generator_id: string | null
}
/** One statement per kind of filter, so that each uses its own index. */
const defineList = (name: string, condition: (p: Slots<AgentFilter>) => string) =>
  rows(
    `agents.${name}`,
    Agent,
    (p: Slots<AgentFilter & NameKey & { limit: number }>) => `
  select ${columns} from ${source}
  where ${condition(p)} and (a.name, a.id) > (${p.after_name}::text, ${p.after_id}::uuid)
    and (${p.name}::text is null or a.name = ${p.name}) and (${p.status}::text is null or a.status = ${p.status})
    and (${p.generator_id}::uuid is null
         or a.id in (select r.agent_id from agent_generator_registrations r where r.generator_id = ${p.generator_id}))
    and ${matchesLabels(p, { labels: 'agent_labels', annotations: 'agent_annotations', owner: 'agent_id', is: 'a.id' })}
  order by a.name, a.id limit ${p.limit}::int`,
  )
export const list = defineList('list', () => 'a.deleted_at is null')
/** A separate statement without filters: a generic plan would evaluate every optional filter for each row. */
export const listAll = rows(
  'agents.listAll',
  Agent,
  (p: Slots<NameKey & { limit: number }>) => `
  select ${columns} from ${source}
  where a.deleted_at is null and (a.name, a.id) > (${p.after_name}::text, ${p.after_id}::uuid) order by a.name, a.id limit ${p.limit}::int`,
)
export const listNamed = defineList('listNamed', (p) => `a.deleted_at is null and a.name = ${p.name}::text`)
export const listWithDeleted = defineList('listWithDeleted', () => 'true')

/** Locks the row until the transaction ends, so that it does not change between read and update. */
export const lock = maybe(
  'agents.lock',
  z.object({ id: z.string(), name: z.string(), cluster_name: z.string(), status: z.string(), updated_at: z.string() }),
  (p: Slots<{ id: string }>) => `
  select id, name, cluster_name, status, updated_at from agents where id = ${p.id}::uuid and deleted_at is null for no key update`,
)

/** Before deletion: waits for transactions that create targets of this agent, and blocks new ones. */
/** Locks live agents against deletion until the transaction ends. */
export const holdLive = rows(
  'agents.holdLive',
  z.object({ id: z.string() }),
  (p: Slots<{ ids: readonly string[] }>) => `
  select id from agents where id = any(${p.ids}::uuid[]) and deleted_at is null order by id for key share`,
)

export const lockForDeletion = count(
  'agents.lockForDeletion',
  (p: Slots<{ id: string }>) => `select id from agents where id = ${p.id}::uuid and deleted_at is null for update`,
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

/** Deletes its labels and annotations and marks its events deleted. Nothing is removed in its cluster. */
export const markDeleted = maybe(
  'agents.markDeleted',
  z.object({ deleted_at: z.string() }),
  (p: Slots<{ id: string }>) => `
  with events as (update agent_events set deleted_at = now(), updated_at = now() where agent_id = ${p.id}::uuid and deleted_at is null),
    labels as (delete from agent_labels where agent_id = ${p.id}::uuid),
    annotations as (delete from agent_annotations where agent_id = ${p.id}::uuid)
  update agents set deleted_at = now(), ${touched} where id = ${p.id}::uuid and deleted_at is null returning deleted_at`,
)

const Invited = z.object({ invited_generator_ids: z.array(z.string()) })
export const findInvitedGenerators = maybe(
  'agents.findInvitedGenerators',
  Invited,
  (p: Slots<{ id: string }>) => `
  select invited_generator_ids from agents where id = ${p.id}::uuid and deleted_at is null`,
)

/** The agent that joined by this invite with this PAK hash. */
export const findJoined = maybe(
  'agents.findJoined',
  Agent,
  (p: Slots<{ invite_id: string; pak_hash: string }>) => `
  select ${columns} from ${source} where a.pak_hash = ${p.pak_hash}::text and a.invite_id = ${p.invite_id}::uuid and a.deleted_at is null`,
)

/** Written before the response, so that a read right after it shows the heartbeat. */
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

/** Writes heartbeats of many agents. Skips locked rows, so that one agent does not wait for another; skipped agents are not returned.
 *  No agent may occur twice. */
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

/** Compare-and-set: one of several processes makes the transition. FOR UPDATE, so that no target of the agent is created or ended meanwhile. */
export const markConnected = maybe(
  'agents.markConnected',
  z.object({ agent_id: z.string(), name: z.string(), cluster_name: z.string(), connected_at: z.string(), has_stream: z.boolean() }),
  (p: Slots<{ agent_id: string }>) => `
  with due as materialized (select id from agents where id = ${p.agent_id}::uuid and connection_state <> 'connected' for update)
  update agents a set connection_state = 'connected', connected_at = now() from due where a.id = due.id
  returning a.id as agent_id, a.name, a.cluster_name, a.connected_at,
    exists (select from agent_sessions s where s.agent_id = a.id and s.seen_at > now() - ${sessionStaleSeconds} * interval '1 second') as has_stream`,
)

/** Before a report is stored: keeps the agent's connection state until the transaction ends and serializes reports of one agent, because
 *  each report locks rows of its stacks that a concurrent report may have just inserted. */
export const lockForReport = count(
  'agents.lockForReport',
  (p: Slots<{ id: string }>) => `select id from agents where id = ${p.id}::uuid for no key update`,
)

/** Updates last_seen_at for a status report, without counting as a heartbeat. */
export const touch = count(
  'agents.touch',
  (p: Slots<{ agent_id: string }>) => `update agent_liveness set last_seen_at = now() where agent_id = ${p.agent_id}::uuid`,
)

/** PAK fingerprints of the live agents among `ids`. */
export const listPakFingerprints = rows(
  'agents.listPakFingerprints',
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

/** Disconnects a batch of agents that were silent for too long by database time; skips locked rows. FOR UPDATE, so that no target of them
 *  is created or ended meanwhile. */
export const markSilent = rows(
  'agents.markSilent',
  z.object({ agent_id: z.string(), name: z.string(), cluster_name: z.string(), last_seen_at: z.string(), at: z.string() }),
  (p: Slots<{ silent_seconds: number; limit: number }>) => `
  with silent as materialized (
    select a.id, l.last_seen_at from agents a join agent_liveness l on l.agent_id = a.id
    where a.connection_state = 'connected' and a.deleted_at is null and l.last_seen_at < now() - ${p.silent_seconds}::float8 * interval '1 second'
    order by a.id limit ${p.limit}::int for update of a skip locked)
  update agents a set connection_state = 'disconnected' from silent where a.id = silent.id
  returning a.id as agent_id, a.name, a.cluster_name, silent.last_seen_at, now() as at`,
)
