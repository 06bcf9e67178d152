// The fleet view: each agent with its connection, its pending deployment objects and the health of its stacks.
import { FleetAgentRecord, ListedFleetAgent } from '@brokkr/contract/agents/fleet.ts'
import { maybe, rows, type Slots } from '@brokkr/postgres'
import { wantedObjectId } from '../../deployments/store/deployment-objects.ts'
import type { NameKey } from '../../schema/sql-fragments.ts'
import { eligibleOrders } from '../../work-orders/store/eligibility.ts'
import { sessionStaleSeconds } from './agent-sessions.ts'

/** Counting of pending work orders stops here, as their list does. */
const pendingOrdersMax = 100

/** Pending are the objects of the polled list without an acknowledgment: wanted objects of targeted stacks and markers of deleted stacks. */
const columns = (p: Slots<{ generator_id: string | null }>): string => `
  a.id as agent_id, a.name, a.cluster_name, a.status, c.connected_since is not null as ws_connected, c.connected_since, l.last_heartbeat,
  floor(extract(epoch from now() - l.last_heartbeat))::int as heartbeat_age_seconds,
  (select count(*) from agent_targets t join stacks s on s.id = t.stack_id and ${wantedObjectId('s')} is not null
   where t.agent_id = a.id and (${p.generator_id}::uuid is null or s.generator_id = ${p.generator_id})
     and not exists (select from agent_object_acks k where k.agent_id = a.id and k.deployment_object_id = ${wantedObjectId('s')}))
  + (select count(*) from agent_stack_status d join stacks s on s.id = d.stack_id and s.deleted_at is not null
     where d.agent_id = a.id and d.phase <> 'removed' and (${p.generator_id}::uuid is null or s.generator_id = ${p.generator_id})
       and not exists (select from agent_object_acks k where k.agent_id = a.id and k.deployment_object_id = ${wantedObjectId('s')})) as pending_object_count,
  (select count(*) from (${eligibleOrders('a.id', { limit: String(pendingOrdersMax) })} limit ${pendingOrdersMax}) o) as pending_work_orders,
  (select count(*) from work_orders w where w.claimed_by = a.id and w.status = 'CLAIMED') as claimed_work_orders, e.created_at as last_event_at,
  floor(extract(epoch from now() - e.created_at))::int as seconds_since_last_event,
  (select count(*) from agent_targets t where t.agent_id = a.id and t.health = 'failing') as health_failing,
  (select count(*) from agent_targets t where t.agent_id = a.id and t.health = 'degraded') as health_degraded,
  l.k8s_reachable, l.k8s_api_latency_ms`
const source = `agents a left join agent_liveness l on l.agent_id = a.id
  left join lateral (select min(x.connected_since) as connected_since from agent_sessions x
                     where x.agent_id = a.id and x.seen_at > now() - interval '${sessionStaleSeconds} seconds') c on true
  left join lateral (select x.created_at from agent_events x where x.agent_id = a.id and x.deleted_at is null order by x.created_at desc limit 1) e on true`

type Listing = NameKey & { generator_id: string | null; limit: number }

/** `more`: further columns. */
const listText = (p: Slots<Listing>, more: string): string => `
  select ${columns(p)}${more} from ${source}
  where a.deleted_at is null and (a.name, a.id) > (${p.after_name}::text, ${p.after_id}::uuid)
    and (${p.generator_id}::uuid is null or a.id in (select r.agent_id from agent_generator_registrations r where r.generator_id = ${p.generator_id}))
  order by a.name, a.id limit ${p.limit}::int`

export const list = rows('fleet.list', FleetAgentRecord, (p: Slots<Listing>) => listText(p, ''))

const agentColumns = `, a.connection_state, l.last_seen_at, a.agent_version,
  array(select x.label from agent_labels x where x.agent_id = a.id order by x.label limit 64) as labels`
export const listWithAgent = rows('fleet.listWithAgent', ListedFleetAgent, (p: Slots<Listing>) => listText(p, agentColumns))

export const listAmong = rows(
  'fleet.listAmong',
  FleetAgentRecord,
  (p: Slots<{ ids: string[]; generator_id?: string | null }>) => `
  select ${columns(p)} from ${source} where a.id = any(${p.ids}::uuid[]) and a.deleted_at is null order by a.name, a.id`,
)

export const get = maybe(
  'fleet.get',
  FleetAgentRecord,
  (p: Slots<{ id: string; generator_id?: string | null }>) => `
  select ${columns(p)} from ${source} where a.id = ${p.id}::uuid and a.deleted_at is null`,
)
