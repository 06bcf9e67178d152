// A broker with one tenant and the words that tests of the feed use: stacks under a label, submissions, followers, rows aged
// or written by hand.

import { randomUUID } from 'node:crypto'
import { makePak } from '@brokkr/contract/pak.ts'
import { makeAgent, makeGenerator, startTestBroker, type TestAgent, type TestBroker, type TestTenant, unique } from './broker.ts'
import { type Follower, followStream } from './follower.ts'
import { type LateSubmission, openSubmission } from './late-submission.ts'
import { database, type TestDatabase } from './postgres.ts'

export type FeedWorld = {
  readonly broker: TestBroker
  readonly db: TestDatabase
  readonly tenant: TestTenant
  stack(labels?: string[]): Promise<{ id: string }>
  submit(stackId: string, value: string): Promise<{ id: string; sequence_id: number }>
  openSubmission(stackId: string, value: string): Promise<LateSubmission>
  agent(labels?: string[]): Promise<TestAgent>
  /** Many agents that have every stack under the label, written by hand: the API is not what such a test is about. */
  crowd(count: number, label: string): Promise<TestAgent[]>
  follow(agent: TestAgent, options?: { cursor?: string; at?: TestBroker; query?: Record<string, string> }): Promise<Follower>
  /** One statement by hand. */
  sql<Row extends object>(text: string, values?: unknown[]): Promise<Row[]>
  /** stack → rev and object that the database says this agent should run. */
  wanted(agent: TestAgent): Promise<Map<string, { rev: number; objectId: string | null }>>
}

export const configMapYaml = (value: string): string => `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {v: "${value}"}\n`

export async function feedWorld(env: Record<string, string> = {}): Promise<FeedWorld> {
  const db = await database()
  const broker = await startTestBroker({ databaseUrl: db.url, env })
  const tenant = await makeGenerator(broker)
  const sql = async <Row extends object>(text: string, values: unknown[] = []): Promise<Row[]> => {
    const client = await db.connect()
    try {
      return (await client.query<Row>(text, values)).rows
    } finally {
      await client.end()
    }
  }
  return {
    broker,
    db,
    tenant,
    sql,
    stack: (labels = []) => tenant.client.createStack({ body: { name: unique('stack'), generator_id: tenant.generator.id, labels } }),
    submit: (id, value) => tenant.client.createDeploymentObject({ params: { id }, body: { yaml_content: configMapYaml(value) } }),
    openSubmission: (id, value) => openSubmission({ connect: db.connect, encryptionKey: broker.encryptionKey }, id, configMapYaml(value)),
    agent: (labels = []) => makeAgent(broker, { labels, generators: [tenant] }),
    crowd: (count, label) => makeCrowd({ broker, tenant, sql }, count, label),
    follow: ({ agent, pak }, { at = broker, ...options } = {}) => followStream(at.url, { agentId: agent.id, pak, ...options }),
    wanted: async ({ agent }) => {
      const rows = await sql<{ stack_id: string; rev: string; object_id: string | null }>(
        `select t.stack_id, s.last_sequence as rev, o.id as object_id from agent_targets t join stacks s on s.id = t.stack_id and s.deleted_at is null
         left join lateral (select id from deployment_objects d where d.stack_id = s.id and d.deleted_at is null order by sequence_id desc limit 1) o on true where t.agent_id = $1`,
        [agent.id],
      )
      return new Map(rows.map((row) => [row.stack_id, { rev: Number(row.rev), objectId: row.object_id }]))
    },
  }
}

type CrowdDeps = { broker: TestBroker; tenant: TestTenant; sql: (text: string, values?: unknown[]) => Promise<object[]> }

async function makeCrowd({ broker, tenant, sql }: CrowdDeps, count: number, label: string): Promise<TestAgent[]> {
  const keys = await Promise.all(Array.from({ length: count }, async () => ({ id: randomUUID(), ...(await makePak()) })))
  const ids = keys.map(({ id }) => id)
  await sql(
    `insert into agents (id, name, cluster_name, status, pak_hash) select id, 'crowd-' || id, 'crowd-' || id, 'ACTIVE', hash from unnest($1::uuid[], $2::text[]) as k (id, hash)`,
    [ids, keys.map(({ hash }) => hash)],
  )
  await sql('insert into agent_liveness (agent_id, last_seen_at) select id, now() from unnest($1::uuid[]) as k (id)', [ids])
  await sql(
    'insert into agent_generator_registrations (id, agent_id, generator_id) select gen_random_uuid(), id, $2 from unnest($1::uuid[]) as k (id)',
    [ids, tenant.generator.id],
  )
  await sql('insert into agent_labels (id, agent_id, label) select gen_random_uuid(), id, $2 from unnest($1::uuid[]) as k (id)', [
    ids,
    label,
  ])
  await sql(
    'insert into agent_targets (id, agent_id, stack_id, by_label) select gen_random_uuid(), k.id, l.stack_id, true from unnest($1::uuid[]) as k (id) cross join stack_labels l where l.label = $2',
    [ids, label],
  )
  return keys.map(({ id, pak }) => ({ agent: { id } as TestAgent['agent'], pak, client: broker.clientOf(pak) }))
}
