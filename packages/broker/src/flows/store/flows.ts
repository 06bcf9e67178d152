// Flows as their agents report them. Lists are by name; a flow is shown while its agent has the stack or still has to remove it.
import { Flow } from '@brokkr/contract/flows/flow.ts'
import { count, maybe, rows, type Slots } from '@brokkr/postgres'

/** Health is reported at least every five minutes. */
const staleSeconds = 600

const isStale = `(coalesce((f.report->>'stale')::boolean, false) or a.connection_state <> 'connected'
      or coalesce(f.received_at < now() - interval '${staleSeconds} seconds', true))`
const columns = `f.id, f.kind, f.namespace, f.name, f.agent_id, a.name as agent_name, a.cluster_name, f.stack_id, s.name as stack_name, f.generator_id,
    f.deployment_object_id, f.state, f.ready, f.message, ${isStale} as stale, f.report, f.reported_at, f.checked_at, f.created_at`
const source = `flows f join agents a on a.id = f.agent_id and a.deleted_at is null join stacks s on s.id = f.stack_id and s.deleted_at is null`
const isDelivered = `(exists (select from agent_targets t where t.agent_id = f.agent_id and t.stack_id = f.stack_id)
      or exists (select from agent_stack_status u where u.agent_id = f.agent_id and u.stack_id = f.stack_id and u.phase <> 'removed'))`

export interface Listing {
  readonly generator_id: string | null
  readonly agent_id: string | null
  readonly stack_id: string | null
  readonly state: string | null
  readonly name: string | null
  readonly search: string | null
  readonly stale: boolean | null
  readonly after_name: string
  readonly after_id: string
  readonly limit: number
}
const defineList = (name: string, condition: (p: Slots<Listing>) => string) =>
  rows(
    `flows.${name}`,
    Flow,
    (p: Slots<Listing>) => `
  select ${columns} from ${source}
  where ${condition(p)} and (f.name, f.id) > (${p.after_name}::text, ${p.after_id}::uuid)
    and (${p.generator_id}::uuid is null or f.generator_id = ${p.generator_id}) and (${p.agent_id}::uuid is null or f.agent_id = ${p.agent_id})
    and (${p.stack_id}::uuid is null or f.stack_id = ${p.stack_id}) and (${p.state}::text is null or f.state = ${p.state})
    and (${p.name}::text is null or f.name = ${p.name}) and (${p.search}::text is null or strpos(lower(f.name), lower(${p.search})) > 0)
    and (${p.stale}::boolean is null or ${isStale} = ${p.stale}) and ${isDelivered}
  order by f.name, f.id limit ${p.limit}::int`,
  )
export const list = defineList('list', () => 'true')
export const listNamed = defineList('listNamed', (p) => `f.name = ${p.name}::text`)
export const listOwned = defineList('listOwned', (p) => `f.generator_id = ${p.generator_id}::uuid`)
export const listOfAgent = defineList('listOfAgent', (p) => `f.agent_id = ${p.agent_id}::uuid`)

export const get = maybe(
  'flows.get',
  Flow,
  (p: Slots<{ id: string }>) => `select ${columns} from ${source} where f.id = ${p.id}::uuid and ${isDelivered}`,
)

/** Until the transaction ends. */
export const lock = count('flows.lock', (p: Slots<{ id: string }>) => `select id from flows where id = ${p.id}::uuid for no key update`)

/** Call it after the health of the same report is recorded, which has locked the pair: an older check changes nothing. Flows that a complete
 *  report omits are gone. */
export const record = count(
  'flows.record',
  (p: Slots<{ agent_id: string; objects: string; flows: string }>) => `
  with told as materialized (
    select distinct on (o.stack_id) o.stack_id, k.generator_id, r.id, r.checked_at, r.is_complete
    from jsonb_to_recordset(${p.objects}::jsonb) as r (id uuid, checked_at timestamptz, is_complete boolean)
    join deployment_objects o on o.id = r.id join stacks k on k.id = o.stack_id
    join deployment_health h on h.agent_id = ${p.agent_id}::uuid and h.deployment_object_id = r.id and h.checked_at <= r.checked_at
    order by o.stack_id, r.checked_at desc, o.sequence_id desc),
  found as materialized (
    select t.stack_id, t.generator_id, t.checked_at, e.*
    from jsonb_to_recordset(${p.flows}::jsonb) as e (object_id uuid, kind text, namespace text, name text, state text, ready boolean, message text, report jsonb)
    join told t on t.id = e.object_id),
  gone as (
    delete from flows f using told t
    where f.agent_id = ${p.agent_id}::uuid and f.stack_id = t.stack_id and t.is_complete and f.checked_at <= t.checked_at
      and not exists (select from found e where (e.stack_id, e.kind, e.namespace, e.name) = (f.stack_id, f.kind, f.namespace, f.name)))
  insert into flows as f (id, agent_id, stack_id, generator_id, deployment_object_id, kind, namespace, name, state, ready, message,
    report, reported_at, received_at, checked_at)
  select gen_random_uuid(), ${p.agent_id}::uuid, e.stack_id, e.generator_id, e.object_id, e.kind, e.namespace, e.name, e.state, e.ready, e.message,
    e.report, case when e.report is not null then e.checked_at end, case when e.report is not null then now() end, e.checked_at
  from found e order by e.stack_id, e.kind, e.namespace, e.name
  on conflict (agent_id, stack_id, kind, namespace, name) do update
    set deployment_object_id = excluded.deployment_object_id, ready = excluded.ready, message = excluded.message, checked_at = excluded.checked_at,
      state = case when excluded.report is null then f.state else excluded.state end, report = coalesce(excluded.report, f.report),
      reported_at = coalesce(excluded.reported_at, f.reported_at), received_at = coalesce(excluded.received_at, f.received_at)
  where excluded.checked_at >= f.checked_at`,
)

export const forgetAgent = count(
  'flows.forgetAgent',
  (p: Slots<{ agent_id: string }>) => `delete from flows where agent_id = ${p.agent_id}::uuid`,
)

/** Flows of stacks that their agent has removed. */
export const removeRemoved = count(
  'flows.removeRemoved',
  (p: Slots<{ limit: number }>) => `
  delete from flows where id in (
    select f.id from agent_stack_status u join flows f on f.agent_id = u.agent_id and f.stack_id = u.stack_id
    where u.phase = 'removed' and u.received_at < now() - interval '10 minutes'
      and not exists (select from agent_targets t where t.agent_id = u.agent_id and t.stack_id = u.stack_id)
    order by u.received_at limit ${p.limit}::int)`,
)
