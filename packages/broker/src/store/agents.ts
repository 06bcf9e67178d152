// Agents with what was last heard of them (agent_liveness, kept apart so that a heartbeat rewrites one small row).
import { Agent } from '@brokkr/contract/agent.ts'
import { z } from 'zod'
import { count, maybe, rows, type Slots } from './sql.ts'

const columns = `a.id, a.name, a.cluster_name, a.status, l.last_heartbeat, l.k8s_reachable, l.k8s_api_latency_ms, l.k8s_reported_at,
  a.created_at, a.updated_at, a.deleted_at, a.connection_state, l.last_seen_at, a.agent_version`
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
    }>,
  ) => `
  with made as (
    insert into agents (id, name, cluster_name, status, pak_hash, pak_short, invited_generator_ids)
    values (${p.id}, ${p.name}, ${p.cluster_name}, ${p.status}, ${p.pak_hash}, ${p.pak_short}, ${p.invited_generator_ids}::uuid[]) returning id)
  insert into agent_liveness (agent_id) select id from made`,
)

export const get = maybe(
  'agents.get',
  Agent,
  (p: Slots<{ id: string }>) => `select ${columns} from ${source} where a.id = ${p.id}::uuid and a.deleted_at is null`,
)

export const list = rows(
  'agents.list',
  Agent,
  (p: Slots<{ name: string | null; generator_id: string | null; limit: number }>) => `
  select ${columns} from ${source}
  where a.deleted_at is null and (${p.name}::text is null or a.name = ${p.name})
    and (${p.generator_id}::uuid is null
         or exists (select from agent_generator_registrations r where r.agent_id = a.id and r.generator_id = ${p.generator_id}))
  order by a.name, a.id limit ${p.limit}::int`,
)

const Invited = z.object({ invited_generator_ids: z.array(z.string()) })
export const invitedGenerators = maybe(
  'agents.invitedGenerators',
  Invited,
  (p: Slots<{ id: string }>) => `
  select invited_generator_ids from agents where id = ${p.id}::uuid and deleted_at is null`,
)

/** A sign of life: written before the answer, so that a read right after it shows it. */
export const recordHeartbeat = count(
  'agents.recordHeartbeat',
  (p: Slots<{ agent_id: string; k8s_reachable: boolean | null; k8s_api_latency_ms: number | null }>) => `
  update agent_liveness set last_heartbeat = now(), last_seen_at = now(),
    k8s_reachable = coalesce(${p.k8s_reachable}::boolean, k8s_reachable),
    k8s_api_latency_ms = case when ${p.k8s_reachable}::boolean is null then k8s_api_latency_ms else ${p.k8s_api_latency_ms}::int end,
    k8s_reported_at = case when ${p.k8s_reachable}::boolean is null then k8s_reported_at else now() end
  where agent_id = ${p.agent_id}::uuid`,
)

/** Only a change is written: connection state by compare-and-set, so one of many processes makes the transition. */
export const markConnected = count(
  'agents.markConnected',
  (p: Slots<{ agent_id: string; agent_version: string | null }>) => `
  update agents set connection_state = 'connected', connected_at = case when connection_state = 'connected' then connected_at else now() end,
    agent_version = coalesce(${p.agent_version}::text, agent_version)
  where id = ${p.agent_id}::uuid and (connection_state <> 'connected' or agent_version is distinct from coalesce(${p.agent_version}::text, agent_version))`,
)

/** A batch of those unseen for too long, by database time; rows another process handles are passed over. */
export const markSilent = rows(
  'agents.markSilent',
  z.object({ id: z.string() }),
  (p: Slots<{ silent_seconds: number; limit: number }>) => `
  update agents set connection_state = 'disconnected' where id in (
    select a.id from agents a join agent_liveness l on l.agent_id = a.id
    where a.connection_state = 'connected' and a.deleted_at is null and l.last_seen_at < now() - ${p.silent_seconds}::float8 * interval '1 second'
    order by a.id limit ${p.limit}::int for update of a skip locked)
  returning id`,
)
