// What a claim and the list before it read from the database, with a small and with a large backlog.
import type { Sql } from '@brokkr/postgres'
import { database } from '@brokkr/testing/servers/postgres.ts'
import type pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import * as workOrderClaims from './store/work-order-claims.ts'
import * as workOrderLog from './store/work-order-log.ts'
import * as workOrders from './store/work-orders.ts'

let client: pg.Client
const agent = '0c000000-0000-4000-8000-000000000001'
beforeAll(async () => {
  client = await (await database()).connect()
  await client.query(`
    set session_replication_role = replica;
    create function pg_temp.id(kind text, n bigint) returns uuid language sql as $$ select ('0' || kind || '000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid $$;
    insert into agents (id, name, cluster_name) select pg_temp.id('c', n), 'a' || n, 'c' from generate_series(1, 100) n;
    insert into agent_labels (id, agent_id, label) select gen_random_uuid(), id, 'shared' from agents;
    insert into agent_annotations (id, agent_id, key, value) select gen_random_uuid(), id, 'k', 'shared' from agents;
  `)
  return () => client.end()
})

/** Orders `from` to `to`: a third each for one of the agents, for a label of all, and for an annotation of all. */
const addBacklog = async (from: number, to: number): Promise<void> => {
  const rows = `select n, pg_temp.id('f', n) as id, now() - interval '1 day' + n * interval '1 second' as at from generate_series(${from}, ${to}) n`
  await client.query(`
    insert into work_order_contents (id, yaml_sealed, yaml_bytes, request) select id, '', 0, '{}' from (${rows}) r;
    insert into work_orders (id, work_type, match, claim_timeout_seconds, max_retries, backoff_seconds, created_at)
      select id, 'custom', case n % 2 when 0 then 'any' else 'all' end, 60, 3, 60, at from (${rows}) r;
    insert into work_order_targets (work_order_id, agent_id, created_at) select id, pg_temp.id('c', n % 100 + 1), at from (${rows}) r where n % 3 = 0;
    insert into work_order_labels (work_order_id, label, created_at) select id, 'shared', at from (${rows}) r where n % 3 = 1;
    insert into work_order_annotations (work_order_id, key, value, created_at) select id, 'k', 'shared', at from (${rows}) r where n % 3 = 2;
    analyze`)
}

interface Node {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Shared Hit Blocks': number
  readonly 'Shared Read Blocks': number
  readonly Plans?: readonly Node[]
}
const nodes = (plan: Node): Node[] => [plan, ...(plan.Plans ?? []).flatMap(nodes)]

/** Blocks that a statement reads, and the tables it reads from end to end. */
async function measure(run: (sql: Sql) => Promise<unknown>): Promise<{ blocks: number; scans: string[] }> {
  let plan: Node | undefined
  const explain: Sql['query'] = async ({ text, values }) => {
    await client.query('begin')
    const { rows } = await client.query<{ 'QUERY PLAN': { Plan: Node }[] }>({
      text: `explain (analyze, buffers, timing off, format json) ${text}`,
      values,
    })
    await client.query('rollback')
    plan = rows[0]!['QUERY PLAN'][0]!.Plan
    return { rows: [], rowCount: 0 }
  }
  await run({ query: explain, begin: () => Promise.reject(new Error('no transaction')) })
  const scans = nodes(plan!)
    .filter((node) => node['Node Type'] === 'Seq Scan' && node['Relation Name']?.startsWith('work_order') === true)
    .map((node) => node['Relation Name'] ?? '')
  return { blocks: plan!['Shared Hit Blocks'] + plan!['Shared Read Blocks'], scans }
}
const pending = (sql: Sql) =>
  workOrders.listPending(sql, {
    agent_id: agent,
    work_type: null,
    after_at: '-infinity',
    after_id: '00000000-0000-0000-0000-000000000000',
    limit: 101,
  })
const claim = (sql: Sql) => workOrderClaims.claim(sql, { id: '0f000000-0000-4000-8000-000000000001', agent_id: agent }).catch(() => null)

test('a claim and the list of pending orders cost the same with 2,000 and with 60,000 orders', async () => {
  await addBacklog(1, 2_000)
  const [smallList, smallClaim] = [await measure(pending), await measure(claim)]
  await addBacklog(2_001, 60_000)
  const [largeList, largeClaim] = [await measure(pending), await measure(claim)]
  expect([largeList.scans, largeClaim.scans]).toEqual([[], []])
  // An index of thirty times the rows has at most one level more.
  expect(largeClaim.blocks).toBeLessThan(smallClaim.blocks * 2 + 20)
  expect(largeList.blocks).toBeLessThan(smallList.blocks * 2 + 200)
}, 120_000)

test('the log of failed orders is read by an index, although almost all succeeded', async () => {
  await client.query(`
    insert into work_order_contents (id, yaml_sealed, yaml_bytes, request) select pg_temp.id('e', n), '', 0, '{}' from generate_series(1, 60000) n;
    insert into work_order_log (id, work_type, claimed_by, success, retries_attempted, attempt, created_at, completed_at)
      select pg_temp.id('e', n), 'custom', pg_temp.id('c', 1), n % 20000 <> 1, 0, 1, now(), now() - n * interval '1 second' from generate_series(1, 60000) n;
    analyze`)
  const page = { after_at: 'infinity', after_id: 'ffffffff-ffff-ffff-ffff-ffffffffffff', limit: 101 }
  const failed = { ...page, success: false }
  for (const run of [
    (sql: Sql) => workOrderLog.list(sql, failed),
    (sql: Sql) => workOrderLog.listOfType(sql, { ...failed, work_type: 'custom' }),
    (sql: Sql) => workOrderLog.listOfAgent(sql, { ...failed, agent_id: agent, work_type: null }),
  ]) {
    const { blocks, scans } = await measure(run)
    expect(scans).toEqual([])
    expect(blocks).toBeLessThan(100)
  }
}, 120_000)
