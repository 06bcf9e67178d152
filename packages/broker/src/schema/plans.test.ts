// No statement reads a large table from end to end: each is led by an index, in the plan that serves every value (prepared statements
// come to it after a few runs). Those that must count everything are named, with the reason.
import { openDatabase } from '@brokkr/postgres'
import { database } from '@brokkr/testing/servers/postgres.ts'
import type pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import * as store from './stores.ts'

let client: pg.Client
/** Tables with a handful of rows may be read whole. */
let large: ReadonlySet<string>
beforeAll(async () => {
  client = await (await database()).connect()
  await client.query(`
    set session_replication_role = replica;
    create function pg_temp.id(kind text, n bigint) returns uuid language sql as $$ select ('0' || kind || '000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid $$;
    insert into generators (id, name, pak_hash) select pg_temp.id('a', n), 'g' || n, md5('g' || n) from generate_series(1, 3000) n;
    insert into agents (id, name, cluster_name, pak_hash, connection_state) select pg_temp.id('c', n), 'a' || n, 'c', md5('a' || n), 'connected' from generate_series(1, 20000) n;
    insert into agent_liveness (agent_id, last_seen_at) select id, now() - random() * interval '1 hour' from agents;
    insert into stacks (id, name, generator_id) select pg_temp.id('b', n), 's' || n, pg_temp.id('a', n % 3000 + 1) from generate_series(1, 20000) n;
    insert into deployment_objects (id, stack_id, sequence_id, yaml_sealed, yaml_bytes, yaml_checksum, created_by_kind)
      select pg_temp.id('d', n), pg_temp.id('b', n % 5000 + 1), n, repeat('x', 200)::bytea, 200, '', 'admin' from generate_series(1, 20000) n;
    insert into agent_targets (id, agent_id, stack_id, explicit)
      select gen_random_uuid(), pg_temp.id('c', n % 5000 + 1), pg_temp.id('b', n * 7 % 5000 + 1), true from generate_series(1, 20000) n on conflict do nothing;
    insert into agent_stack_status (agent_id, stack_id, epoch, rev, phase, code)
      select agent_id, stack_id, gen_random_uuid(), 1, case when random() < 0.02 then 'removed' else 'applied' end, null from agent_targets;
    insert into agent_object_acks (agent_id, deployment_object_id, last_type, last_status)
      select pg_temp.id('c', n % 5000 + 1), pg_temp.id('d', n), 'DEPLOY', 'SUCCESS' from generate_series(1, 20000) n;
    insert into deployment_health (id, agent_id, deployment_object_id, status, checked_at)
      select gen_random_uuid(), pg_temp.id('c', n % 5000 + 1), pg_temp.id('d', n), 'healthy', now() from generate_series(1, 20000) n;
    insert into stack_summary (stack_id, slot) select pg_temp.id('b', n % 5000 + 1), n / 5000 from generate_series(0, 19999) n;
    insert into agent_labels (id, agent_id, label) select gen_random_uuid(), pg_temp.id('c', n % 5000 + 1), 'l' || n from generate_series(1, 10000) n;
    insert into stack_labels (id, stack_id, label) select gen_random_uuid(), pg_temp.id('b', n % 5000 + 1), 'l' || n from generate_series(1, 10000) n;
    insert into agent_annotations (id, agent_id, key, value) select gen_random_uuid(), pg_temp.id('c', n % 5000 + 1), 'k' || n, 'v' from generate_series(1, 10000) n;
    insert into stack_annotations (id, stack_id, key, value) select gen_random_uuid(), pg_temp.id('b', n % 5000 + 1), 'k' || n, 'v' from generate_series(1, 10000) n;
    insert into agent_generator_registrations (id, agent_id, generator_id)
      select gen_random_uuid(), pg_temp.id('c', n % 5000 + 1), pg_temp.id('a', n % 3000 + 1) from generate_series(1, 10000) n on conflict do nothing;
    insert into agent_events (id, agent_id, deployment_object_id, stack_id, event_type, status, created_at)
      select gen_random_uuid(), pg_temp.id('c', n % 5000 + 1), pg_temp.id('d', n), pg_temp.id('b', n % 5000 + 1), 'DEPLOY', 'SUCCESS', now() - n * interval '1 second' from generate_series(1, 20000) n;
    insert into audit_logs (id, actor_type, action, resource_type, timestamp)
      select gen_random_uuid(), 'admin', 'stack.created', 'stack', now() - n * interval '1 second' from generate_series(1, 20000) n;
    insert into change_log (scope_kind, scope_id, object_kind, op) select 'stack', pg_temp.id('b', n % 5000 + 1), 'stack', 'update' from generate_series(1, 20000) n;
    insert into idempotency_keys (scope, key, id, body_hash, status, body_sealed, expires_at)
      select 's' || n, 'k', gen_random_uuid(), 'h', 201, '', now() + interval '1 day' from generate_series(1, 10000) n;
    insert into webhook_subscriptions (id, name, url_sealed, secret_sealed, event_types) select pg_temp.id('e', n), 'w', '', '', '{*}' from generate_series(1, 20) n;
    insert into webhook_deliveries (id, subscription_id, event_type, event_id, payload, status, created_at, completed_at, next_retry_at, acquired_until, target_labels)
      select gen_random_uuid(), pg_temp.id('e', n % 20 + 1), 'stack.created', gen_random_uuid(), repeat('x', 500), k.status, now() - n * interval '30 seconds',
        case when k.status in ('success', 'dead') then now() end, case k.status when 'failed' then now() end, case k.status when 'acquired' then now() end,
        case when n % 3 = 0 then array['l' || n] end
      from generate_series(1, 20000) n cross join lateral (select case n % 100 when 0 then 'pending' when 1 then 'acquired' when 2 then 'failed' when 3 then 'dead' else 'success' end as status) k;
  `)
  await client.query(`
    insert into work_order_contents (id, yaml_sealed, yaml_bytes, request) select pg_temp.id('f', n), '', 0, '{}' from generate_series(1, 40000) n;
    insert into work_orders (id, work_type, match, claim_timeout_seconds, max_retries, backoff_seconds, status, created_at, claimed_by, claimed_at, claimed_until, next_retry_after)
      select pg_temp.id('f', n), 'custom', 'any', 60, 3, 60, k.status, now() - n * interval '1 second',
        case k.status when 'CLAIMED' then pg_temp.id('c', n % 5000 + 1) end, case k.status when 'CLAIMED' then now() end, case k.status when 'CLAIMED' then now() end,
        case k.status when 'RETRY_PENDING' then now() end
      from generate_series(1, 20000) n cross join lateral (select case n % 100 when 1 then 'CLAIMED' when 2 then 'RETRY_PENDING' else 'PENDING' end as status) k;
    insert into work_order_targets (work_order_id, agent_id, created_at) select id, pg_temp.id('c', 7), created_at from work_orders;
    insert into work_order_labels (work_order_id, label, created_at) select id, 'l7', created_at from work_orders;
    insert into work_order_annotations (work_order_id, key, value, created_at) select id, 'k7', 'v', created_at from work_orders;
    insert into work_order_log (id, work_type, claimed_by, success, retries_attempted, attempt, created_at, completed_at)
      select pg_temp.id('f', n), 'custom', pg_temp.id('c', n % 5000 + 1), true, 0, 1, now(), now() - n * interval '1 second' from generate_series(20001, 40000) n;
    insert into diagnostic_requests (id, agent_id, deployment_object_id, status, created_at, claimed_at, completed_at, expires_at)
      select gen_random_uuid(), pg_temp.id('c', n % 5000 + 1), pg_temp.id('d', n), k.status, now() - n * interval '1 second', now(),
        case when k.status in ('completed', 'expired', 'failed') then now() end, now()
      from generate_series(1, 20000) n cross join lateral (select case n % 100 when 0 then 'pending' when 1 then 'claimed' when 2 then 'expired' else 'completed' end as status) k;
    insert into diagnostic_results (id, request_id, parts_sealed, collected_at) select gen_random_uuid(), id, '', now() from diagnostic_requests where status = 'completed';
  `)
  await client.query('analyze')
  const { rows } = await client.query<{ name: string }>(`select relname as name from pg_class where relkind = 'r' and reltuples >= 1000`)
  large = new Set(rows.map(({ name }) => name))
  return () => client.end()
}, 120_000)

interface Plan {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly Plans?: readonly Plan[]
}
const nodes = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodes)]

/** Statements that read everything, and why they may. */
const tidying = 'a task that clears up, a few times an hour'
const counting = 'it counts everything: a task once a day, or at most once a second for all callers'
const excused: Readonly<Record<string, string>> = {
  'agent_events.removeOld': tidying,
  'agent_events.removeOldAcks': tidying,
  'deployment_health.removeOld': tidying,
  'webhook_deliveries.removeEnded': tidying,
  'diagnostics.removeEnded': tidying,
  'work_orders.counts': counting,
  'agent_stack_status.recordSkips': 'of a handful of pairs, when something could not be sent',
  'agents.markSilent': 'once in ten seconds, over the connected agents',
  'agent_targets.drift': counting,
  'agent_targets.agentsWithDrift': counting,
  'stack_summary.overview': counting,
  'stack_summary.differences': counting,
  'stack_summary.mend': counting,
  'audit_logs.total': 'counted no further than to a bound',
  'figures.counts': counting,
  'figures.heartbeatAges': 'a thousand agents at most, when metrics are asked for',
}

const statements = Object.values(store).flatMap((file) =>
  Object.values(file).flatMap((value) => (typeof value === 'function' && 'statement' in value ? [value.statement] : [])),
)

test('every statement exempt from the plan check exists', () => {
  const names = statements.map(({ name }) => name)
  expect(Object.keys(excused).filter((name) => !names.includes(name))).toEqual([])
})

test.each(statements.map(({ name, text }) => [name, text] as const))('%s reads no large table from end to end', async (name, text) => {
  if (!/^\s*(with|select|insert|update|delete)/i.test(text)) return
  const { rows } = await client.query<{ 'QUERY PLAN': { Plan: Plan }[] }>(`explain (generic_plan, format json) ${text}`)
  const scanned = largeScans(rows[0]!['QUERY PLAN'][0]!.Plan)
  if (name in excused) expect(scanned, 'it needs no excuse any more').not.toEqual([])
  else expect(scanned).toEqual([])
})

test.each([
  ['agent', `select retarget_agent('0c000000-0000-4000-8000-000000000007', 10000)`],
  ['stack', `select retarget_stack('0b000000-0000-4000-8000-000000000007')`],
])('retargeting one %s reads no large table from end to end', async (_, call) => {
  await client.query('begin')
  await client.query(call)
  const { rows } = await client.query<{ relname: string }>('select relname from pg_stat_xact_user_tables where seq_scan > 0')
  await client.query('rollback')
  expect(rows.map(({ relname }) => relname).filter((name) => large.has(name))).toEqual([])
})

test('a page of agents uses one index scan by name and one read of liveness', async () => {
  const { rows } = await client.query<{ 'QUERY PLAN': string }>(`explain (generic_plan) ${store.agents.listAll.statement.text}`)
  const plan = rows.map((row) => row['QUERY PLAN']).join('\n')
  expect(plan).toMatch(/Index Scan using \w+ on agents a/)
  expect(plan).not.toMatch(/SubPlan|InitPlan|Aggregate/)
})

test('the desired state of an agent with many stacks is read by indexes', async () => {
  await client.query('begin')
  try {
    await client.query(`
      truncate agent_targets, agent_stack_status;
      insert into agent_targets (id, agent_id, stack_id, explicit)
        select gen_random_uuid(), pg_temp.id('c', a), pg_temp.id('b', n * 100 + a), true from generate_series(1, 50) a, generate_series(1, 199) n;
      insert into agent_stack_status (agent_id, stack_id, epoch, rev, phase, code)
        select agent_id, stack_id, gen_random_uuid(), 1, 'applied', null from agent_targets;
      analyze agent_targets; analyze agent_stack_status`)
    for (const { statement } of [store.targetState.list, store.targetState.listNew, store.desiredState.listForAgent]) {
      const { rows } = await client.query<{ 'QUERY PLAN': { Plan: Plan }[] }>(`explain (generic_plan, format json) ${statement.text}`)
      expect(largeScans(rows[0]!['QUERY PLAN'][0]!.Plan), statement.name).toEqual([])
    }
  } finally {
    await client.query('rollback')
  }
})

test('a plan made for an empty change log uses indexes on a large one', async () => {
  const fresh = await database()
  const own = openDatabase({ url: fresh.url, schema: 'public', poolSize: 1 })
  const reader = await own.connect()
  try {
    await reader.query('vacuum analyze change_log, deployment_objects')
    for (const { statement } of [store.changeLog.poll, store.changeLog.page]) {
      const { rows } = await reader.query<{ 'QUERY PLAN': { Plan: Plan }[] }>(`explain (generic_plan, format json) ${statement.text}`)
      const ways = nodes(rows[0]!['QUERY PLAN'][0]!.Plan).filter((node) =>
        ['change_log', 'deployment_objects'].includes(node['Relation Name'] ?? ''),
      )
      expect(
        ways.map((node) => node['Node Type']),
        statement.name,
      ).not.toContain('Seq Scan')
    }
  } finally {
    await reader.end()
    await own.close()
  }
})

const largeScans = (plan: Plan): (string | undefined)[] =>
  nodes(plan)
    .filter((node) => node['Node Type'] === 'Seq Scan' && large.has(node['Relation Name'] ?? ''))
    .map((node) => node['Relation Name'])
