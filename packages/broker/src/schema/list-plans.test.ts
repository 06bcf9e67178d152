// How the database reads a page from the middle of each list: led by an index in the list's own order, so that a page costs the
// same whatever the table holds.
import type { Sql } from '@brokkr/postgres'
import { database } from '@brokkr/testing/servers/postgres.ts'
import type pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { agentEvents, agentK8sEvents, agentPodLogs, agents, deploymentObjects, generators, stacks, timeline } from './stores.ts'

let client: pg.Client
beforeAll(async () => {
  client = await (await database()).connect()
  await client.query(`
    create function pg_temp.id(kind text, n bigint) returns uuid language sql as $$ select ('0' || kind || '000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid $$;
    insert into generators (id, name) select pg_temp.id('a', n), 'g' || n from generate_series(1, 5000) n;
    insert into agents (id, name, cluster_name) select pg_temp.id('c', n), 'a' || n, 'c' from generate_series(1, 5000) n;
    insert into agent_liveness (agent_id) select id from agents;
    insert into stacks (id, name, generator_id) select pg_temp.id('b', n), 's' || n, pg_temp.id('a', n % 5 + 1) from generate_series(1, 5000) n;
    alter table deployment_objects disable trigger user;
    insert into deployment_objects (id, stack_id, sequence_id, yaml_sealed, yaml_bytes, yaml_checksum, created_by_kind)
      select gen_random_uuid(), pg_temp.id('b', n % 20 + 1), n, '', 0, '', 'admin' from generate_series(1, 20000) n;
    insert into agent_events (id, agent_id, deployment_object_id, stack_id, event_type, status, created_at)
      select gen_random_uuid(), pg_temp.id('c', sequence_id / 7 % 20 + 1), id, stack_id, 'DEPLOY', 'SUCCESS', now() - sequence_id * interval '1 second'
      from deployment_objects;
    insert into audit_logs (id, actor_type, action, resource_type, timestamp)
      select gen_random_uuid(), 'admin', 'stack.created', 'stack', now() - n * interval '1 second' from generate_series(1, 20000) n;
    select make_telemetry_partitions('agent_pod_logs', now() - interval '6 hours', 6), make_telemetry_partitions('agent_k8s_events', now() - interval '6 hours', 6);
    insert into agent_pod_logs (id, created_at, agent_id, stack_id, namespace, pod, container, ts, line_sealed)
      select gen_random_uuid(), now() - n * interval '1 second', pg_temp.id('c', 1), pg_temp.id('b', n % 20 + 1), 'n', 'p', 'c', now(), '' from generate_series(1, 20000) n;
    insert into agent_k8s_events (id, created_at, agent_id, stack_id, observed_at, reason, message_sealed, event_type, involved_object)
      select id, created_at, agent_id, stack_id, ts, 'r', '', 'Normal', '{}' from agent_pod_logs;
    analyze;
  `)
  return () => client.end()
})

interface Plan {
  readonly 'Node Type': string
  readonly 'Index Name'?: string
  readonly Plans?: readonly Plan[]
}
const nodes = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodes)]

/** The plan of a statement with these values, in the place of running it. */
async function planOf(run: (sql: Sql) => Promise<unknown>): Promise<Plan[]> {
  let plan: Plan | undefined
  const explain: Sql['query'] = async ({ text, values }) => {
    const { rows } = await client.query<{ 'QUERY PLAN': { Plan: Plan }[] }>({ text: `explain (format json) ${text}`, values })
    plan = rows[0]!['QUERY PLAN'][0]!.Plan
    return { rows: [], rowCount: 0 }
  }
  await run({ query: explain, begin: () => Promise.reject(new Error('no transaction')) })
  return nodes(plan!)
}

const [generator, stack, agent] = ['a', 'b', 'c'].map((kind) => `0${kind}000000-0000-4000-8000-000000000001`) as [string, string, string]
const behind = { after_name: 'm', after_id: stack, limit: 101 }
const marks = { labels: [], keys: [], values: [] }
const filter = { name: null, search: null, status: null, generator_id: null, ...marks }
/** The middle of what was inserted. */
const later = { after_at: new Date(Date.now() - 10_000_000).toISOString(), after_id: stack, limit: 101 }
const telemetry = { ...later, after_at: 'infinity', stack_id: stack, since: null, retention_seconds: 21_600 }
const noEvents = { generator_id: null, stack_id: null, agent_id: null, event_type: null, since: null, with_deleted: false }

test.each<[string, string, (sql: Sql) => Promise<unknown>]>([
  ['agents', 'agents_by_name or agents_with_deleted', (sql) => agents.list(sql, { ...filter, ...behind })],
  ['agents of a name', 'agents_by_name or agents_with_deleted', (sql) => agents.listNamed(sql, { ...filter, ...behind, name: 'a7' })],
  ['agents, deleted ones too', 'agents_with_deleted', (sql) => agents.listWithDeleted(sql, { ...filter, ...behind })],
  ['generators', 'unique_generator_name or generators_with_deleted', (sql) => generators.list(sql, { name: null, ...behind })],
  ['names of generators', 'unique_generator_name or generators_with_deleted', (sql) => generators.names(sql, behind)],
  ['generators, deleted ones too', 'generators_with_deleted', (sql) => generators.listWithDeleted(sql, { name: null, ...behind })],
  ['stacks', 'stacks_by_name or stacks_with_deleted', (sql) => stacks.list(sql, { ...filter, ...behind })],
  ['stacks of a name', 'stacks_by_name or stacks_with_deleted', (sql) => stacks.listNamed(sql, { ...filter, ...behind, name: 's7' })],
  ['stacks of a generator', 'stacks_by_generator', (sql) => stacks.listOwned(sql, { ...filter, ...behind, generator_id: generator })],
  ['stacks, deleted ones too', 'stacks_with_deleted', (sql) => stacks.listWithDeleted(sql, { ...filter, ...behind })],
  [
    'revisions',
    'deployment_objects_by_sequence',
    (sql) => deploymentObjects.list(sql, { stack_id: stack, after_sequence: 15_000, with_deleted: false, limit: 101 }),
  ],
  [
    'events of an agent',
    'agent_events_by_agent',
    (sql) => agentEvents.listOfAgent(sql, { ...later, agent_id: agent, with_deleted: false }),
  ],
  ['all events', 'agent_events_by_time', (sql) => agentEvents.listByTime(sql, { ...noEvents, ...later })],
  [
    'all events of a stack',
    'agent_events_by_stack',
    (sql) => agentEvents.listOfStackByTime(sql, { ...noEvents, ...later, stack_id: stack }),
  ],
  [
    'all events of an agent',
    'agent_events_by_agent',
    (sql) => agentEvents.listOfAgentByTime(sql, { ...noEvents, ...later, agent_id: agent }),
  ],
  ['events of the timeline', 'agent_events_by_time', (sql) => timeline.eventRecords(sql, { ...later, from: null, to: null })],
])('the list of %s is led by %s and sorts no more than neighbours', async (_, index, run) => {
  const plan = await planOf(run)
  expect(plan.map((node) => node['Index Name'] ?? '').some((name) => index.split(' or ').includes(name))).toBe(true)
  expect(plan.map((node) => node['Node Type']).filter((type) => type === 'Sort' || type === 'Seq Scan')).toEqual([])
})

test('the audit entries of the timeline are read from each month in their order', async () => {
  const plan = await planOf((sql) => timeline.auditRecords(sql, { ...later, from: null, to: null }))
  const indexes = plan.flatMap((node) => node['Index Name'] ?? [])
  expect(indexes.length).toBeGreaterThan(0)
  expect(indexes.filter((name) => !/^audit_logs_.*(_pkey|_timestamp_id_idx)/.test(name))).toEqual([])
  expect(plan.map((node) => node['Node Type']).filter((type) => type === 'Sort' || type === 'Seq Scan')).toEqual([])
})

test.each<[string, (sql: Sql) => Promise<unknown>]>([
  ['log lines', (sql) => agentPodLogs.list(sql, telemetry)],
  ['Kubernetes events', (sql) => agentK8sEvents.list(sql, telemetry)],
])('the list of %s reads each partition by stack in the order of the list', async (_, run) => {
  const plan = await planOf(run)
  const indexes = plan.flatMap((node) => node['Index Name'] ?? [])
  expect(indexes.length).toBeGreaterThan(0)
  expect(indexes.filter((name) => !name.endsWith('_stack_id_created_at_id_idx'))).toEqual([])
  expect(plan.map((node) => node['Node Type']).filter((type) => type === 'Sort' || type === 'Seq Scan')).toEqual([])
})
