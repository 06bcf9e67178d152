// A broker with one tenant and the words that tests of the feed use: stacks under a label, submissions, followers, rows aged
// or written by hand.

import { createHash, randomUUID } from 'node:crypto'
import { toManifestContext } from '@brokkr/broker/deployments/rules/stored-manifest.ts'
import { createSeal } from '@brokkr/broker/seal.ts'
import { generatePak } from '@brokkr/contract/auth/pak.ts'
import { createAgent, createGenerator, startTestBroker, type TestAgent, type TestBroker, type TestGenerator, unique } from './broker.ts'
import { type LateSubmission, openSubmission } from './late-submission.ts'
import { database, type TestDatabase } from './servers/postgres.ts'
import { readStream, type StreamReader } from './stream-reader.ts'

export type FeedWorld = {
  readonly broker: TestBroker
  readonly db: TestDatabase
  readonly tenant: TestGenerator
  stack(labels?: string[]): Promise<{ id: string }>
  submit(stackId: string, value: string): Promise<{ id: string; sequence_id: number }>
  openSubmission(stackId: string, value: string): Promise<LateSubmission>
  agent(labels?: string[]): Promise<TestAgent>
  /** Many agents that have every stack under the label, written by hand: the API is not what such a test is about. */
  crowd(count: number, label: string): Promise<TestAgent[]>
  follow(agent: TestAgent, options?: { cursor?: string; at?: TestBroker; query?: Record<string, string> }): Promise<StreamReader>
  /** So many stacks under the label, targeted at the agent and with one object each of so many bytes, written by hand. */
  manyStacks(agent: TestAgent, options: { count: number; label: string; bytes: number }): Promise<string[]>
  /** One statement by hand. */
  sql<Row extends object>(text: string, values?: unknown[]): Promise<Row[]>
  /** stack → rev and object that the database says this agent should run. */
  wanted(agent: TestAgent): Promise<Map<string, { rev: number; objectId: string | null }>>
}

export const configMapYaml = (value: string): string => `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {v: "${value}"}\n`

export async function feedWorld(env: Record<string, string> = {}, program: { main?: string } = {}): Promise<FeedWorld> {
  const db = await database()
  const broker = await startTestBroker({ databaseUrl: db.url, env, ...program })
  const tenant = await createGenerator(broker)
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
    agent: (labels = []) => createAgent(broker, { labels, generators: [tenant] }),
    crowd: (count, label) => createAgents({ broker, tenant, sql }, count, label),
    manyStacks: (agent, options) => createStacks({ broker, tenant, sql }, agent, options),
    follow: ({ agent, pak }, { at = broker, ...options } = {}) => readStream(at.url, { agentId: agent.id, pak, ...options }),
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

type CreateAgentsDeps = { broker: TestBroker; tenant: TestGenerator; sql: (text: string, values?: unknown[]) => Promise<object[]> }

async function createStacks(
  { broker, tenant, sql }: CreateAgentsDeps,
  { agent }: TestAgent,
  { count, label, bytes }: { count: number; label: string; bytes: number },
): Promise<string[]> {
  const rows = (await sql(
    `with made as (insert into stacks (id, name, generator_id) select gen_random_uuid(), 'many-' || n || '-' || $2, $1 from generate_series(1, $3) n returning id),
     labelled as (insert into stack_labels (id, stack_id, label) select gen_random_uuid(), id, $2 from made)
     insert into agent_targets (id, agent_id, stack_id, by_label) select gen_random_uuid(), $4, id, true from made returning stack_id as id`,
    [tenant.generator.id, label, count, agent.id],
  )) as { id: string }[]
  const ids = rows.map(({ id }) => id)
  const seal = createSeal([Buffer.from(broker.encryptionKey, 'hex')])
  const text = configMapYaml('x'.repeat(bytes))
  const checksum = createHash('sha256').update(text).digest('hex')
  for (let at = 0; at < ids.length; at += 250) {
    const page = ids.slice(at, at + 250)
    const objects = page.map(() => randomUUID())
    await sql(
      `with given as (select * from unnest($1::uuid[], $2::uuid[], $3::bytea[]) as g (stack_id, id, sealed)),
       taken as (update stacks set last_sequence = last_sequence + 1, sequence_xid = pg_current_xact_id(), head_object_id = g.id from given g where stacks.id = g.stack_id returning stacks.id, last_sequence)
       insert into deployment_objects (id, stack_id, sequence_id, yaml_sealed, yaml_bytes, yaml_checksum, created_by_kind)
       select g.id, t.id, t.last_sequence, g.sealed, $4, $5, 'admin' from taken t join given g on g.stack_id = t.id`,
      [page, objects, objects.map((id) => seal.seal(toManifestContext(id), text)), Buffer.byteLength(text), checksum],
    )
  }
  return ids
}

async function createAgents({ broker, tenant, sql }: CreateAgentsDeps, count: number, label: string): Promise<TestAgent[]> {
  const keys = await Promise.all(Array.from({ length: count }, async () => ({ id: randomUUID(), ...(await generatePak()) })))
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
