// Sockets of agents and subscribers per broker process, and the rows that pushes to agents are built from.
import { Stack } from '@brokkr/contract/stacks/stack.ts'
import { AgentId } from '@brokkr/contract/wire.ts'
import { count, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'
import { sessionStaleSeconds } from '../agents/store/agent-sessions.ts'
import { isEligible } from '../work-orders/store/eligibility.ts'

/** `session` orders the sockets of an agent over all processes. A newer socket of this process keeps its row. */
export const openSocket = one(
  'live.openSocket',
  z.object({ session: z.int(), connected_since: z.string() }),
  (p: Slots<{ agent_id: string; process: string }>) => `
  with opened as (select nextval('stream_sessions') as session),
  written as (
    insert into agent_sessions as s (agent_id, process, kind, connected_since, session)
    select ${p.agent_id}::uuid, ${p.process}::uuid, 'ws', now(), opened.session from opened
    on conflict (agent_id, process, kind) do update
      set connected_since = now(), seen_at = now(), messages_in = 0, messages_out = 0, session = excluded.session
      where s.session < excluded.session)
  select session, now() as connected_since from opened`,
)

export const closeSocket = count(
  'live.closeSocket',
  (p: Slots<{ agent_id: string; process: string; session: number }>) => `
  delete from agent_sessions where agent_id = ${p.agent_id}::uuid and process = ${p.process}::uuid and kind = 'ws' and session = ${p.session}::bigint`,
)

export interface OpenSocketRows {
  readonly process: string
  readonly agent_ids: string[]
  readonly sessions: number[]
  readonly since: string[]
  readonly messages_in: number[]
  readonly messages_out: number[]
}
/** Writes the rows of open sockets, also those that were lost. Returns the agents that have a newer socket in another process. */
export const refreshSockets = rows(
  'live.refreshSockets',
  z.object({ agent_id: z.string() }),
  (p: Slots<OpenSocketRows>) => `
  with mine as (
    select * from unnest(${p.agent_ids}::uuid[], ${p.sessions}::bigint[], ${p.since}::timestamptz[], ${p.messages_in}::bigint[], ${p.messages_out}::bigint[])
      as m (agent_id, session, connected_since, messages_in, messages_out)),
  written as (
    insert into agent_sessions as s (agent_id, process, kind, connected_since, session, messages_in, messages_out)
    select m.agent_id, ${p.process}::uuid, 'ws', m.connected_since, m.session, m.messages_in, m.messages_out from mine m order by m.agent_id
    on conflict (agent_id, process, kind) do update
      set seen_at = now(), messages_in = excluded.messages_in, messages_out = excluded.messages_out
      where s.session = excluded.session)
  select m.agent_id from mine m where exists (
    select from agent_sessions o where o.agent_id = m.agent_id and o.kind = 'ws' and o.process <> ${p.process}::uuid and o.session > m.session
      and o.seen_at > now() - interval '${sessionStaleSeconds} seconds')`,
)

export const removeProcess = count(
  'live.removeProcess',
  (p: Slots<{ process: string }>) => `
  with subscribers as (delete from live_subscribers where process = ${p.process}::uuid)
  delete from agent_sessions where process = ${p.process}::uuid and kind = 'ws'`,
)

/** The newest socket of each agent. */
export const listSockets = rows(
  'live.listSockets',
  z.object({ agent_id: AgentId, process: z.string(), connected_since: z.string(), messages_in: z.int(), messages_out: z.int() }),
  (p: Slots<{ limit: number }>) => `
  select distinct on (agent_id) agent_id, process, connected_since, messages_in, messages_out from agent_sessions
  where kind = 'ws' and seen_at > now() - interval '${sessionStaleSeconds} seconds' order by agent_id, session desc limit ${p.limit}::int`,
)

export const putSubscribers = count(
  'live.putSubscribers',
  (p: Slots<{ process: string; stack: number; fleet: number }>) => `
  insert into live_subscribers (process, stack, fleet) values (${p.process}::uuid, ${p.stack}::int, ${p.fleet}::int)
  on conflict (process) do update set stack = excluded.stack, fleet = excluded.fleet, seen_at = now()`,
)

/** Subscribers of the other processes. */
export const countSubscribers = one(
  'live.countSubscribers',
  z.object({ stack: z.int() }),
  (p: Slots<{ process: string }>) => `
  select coalesce(sum(stack), 0)::int as stack from live_subscribers
  where process <> ${p.process}::uuid and seen_at > now() - interval '${sessionStaleSeconds} seconds'`,
)

export const targetsAmong = rows(
  'live.targetsAmong',
  z.object({ id: z.string(), agent_id: z.string(), stack_id: z.string() }),
  (p: Slots<{ agent_ids: string[]; stack_ids: string[] }>) => `
  select t.id, t.agent_id, t.stack_id from unnest(${p.agent_ids}::uuid[], ${p.stack_ids}::uuid[]) as pair (agent_id, stack_id)
  join agent_targets t on t.agent_id = pair.agent_id and t.stack_id = pair.stack_id`,
)

/** Changed stacks with each connected agent that they target. */
export const stacksOfAgents = rows(
  'live.stacksOfAgents',
  Stack.extend({ agent_id: z.string() }),
  (p: Slots<{ stack_ids: string[]; agent_ids: string[] }>) => `
  select t.agent_id, s.id, s.name, s.description, s.generator_id, s.created_at, s.updated_at, s.deleted_at, s.drift
  from stacks s join agent_targets t on t.stack_id = s.id
  where s.id = any(${p.stack_ids}::uuid[]) and t.agent_id = any(${p.agent_ids}::uuid[])`,
)

/** Pending work orders with each connected agent that may claim them, and the size of their texts. */
export const ordersOfAgents = rows(
  'live.ordersOfAgents',
  z.object({ agent_id: z.string(), work_order_id: z.string(), bytes: z.int() }),
  (p: Slots<{ order_ids: string[]; agent_ids: string[] }>) => `
  select a.id as agent_id, w.id as work_order_id, t.yaml_bytes as bytes
  from work_orders w join work_order_contents t on t.id = w.id join agents a on a.id = any(${p.agent_ids}::uuid[])
  where w.id = any(${p.order_ids}::uuid[]) and w.status = 'PENDING' and ${isEligible('a.id')}`,
)

/** Agents heard after a time by the database's clock; of those heard at that very time the ones after an id. */
export const heardSince = rows(
  'live.heardSince',
  z.object({ agent_id: z.string(), last_seen_at: z.string() }),
  (p: Slots<{ since: string; after_id: string; limit: number }>) => `
  select agent_id, last_seen_at from agent_liveness where (last_seen_at, agent_id) > (${p.since}::timestamptz, ${p.after_id}::uuid)
  order by last_seen_at, agent_id limit ${p.limit}::int`,
)

export const now = one('live.now', z.object({ now: z.string() }), () => `select clock_timestamp() as now`)
