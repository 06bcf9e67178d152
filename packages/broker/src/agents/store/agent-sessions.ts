// Streams of agents per broker process. A row that was not refreshed for `sessionStaleSeconds` counts as closed.
import { count, type Slots } from '@brokkr/postgres'

export const sessionStaleSeconds = 90

export const refresh = count(
  'agent_sessions.refresh',
  (p: Slots<{ process: string; agent_ids: string[]; since: string[] }>) => `
  insert into agent_sessions (agent_id, process, kind, connected_since)
  select s.agent_id, ${p.process}::uuid, 'stream', s.since from unnest(${p.agent_ids}::uuid[], ${p.since}::timestamptz[]) as s (agent_id, since)
  order by s.agent_id
  on conflict (agent_id, process, kind) do update set connected_since = excluded.connected_since, seen_at = now()`,
)

export const remove = count(
  'agent_sessions.remove',
  (p: Slots<{ process: string; agent_ids: string[] }>) => `
  delete from agent_sessions where process = ${p.process}::uuid and agent_id = any(${p.agent_ids}::uuid[])`,
)

export const removeProcess = count(
  'agent_sessions.removeProcess',
  (p: Slots<{ process: string }>) => `delete from agent_sessions where process = ${p.process}::uuid`,
)

/** Rows of killed processes; they stopped counting long before. */
export const removeStale = count(
  'agent_sessions.removeStale',
  (p: Slots<{ limit: number }>) => `
  delete from agent_sessions where ctid in (select ctid from agent_sessions where seen_at < now() - interval '1 hour' limit ${p.limit}::int)`,
)
