// Two tenants on one real broker, each with everything a tenant can have, and a look at every row the broker keeps: a call that was
// refused must leave all of them as they were.
import type { Client } from '@brokkr/contract/client.ts'
import { createAgent, createGenerator, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import pg from 'pg'

/** Time-driven writes stay away: each test compares all rows, and its agents send no heartbeats. */
export const quietBroker = { BROKKR__FEED__CANARY_SECONDS: '3600', BROKKR__BROKER__AGENT_DISCONNECT_AFTER_SECONDS: '3600' }

export interface Tenant {
  readonly generatorId: string
  readonly generatorPak: string
  readonly agentId: string
  readonly agentPak: string
  readonly agentName: string
  readonly stackId: string
  readonly objectId: string
  readonly eventId: string
  readonly templateId: string
  readonly planId: string
  readonly flowId: string
  readonly label: string
  readonly client: Client
  readonly agent: Client
}

/** A Secret whose value is the canary stands in its manifest. */
export async function makeTenant(broker: TestBroker, canary = 'value'): Promise<Tenant> {
  const { generator, pak, client } = await createGenerator(broker)
  const label = unique('l')
  const {
    agent,
    pak: agentPak,
    client: agentClient,
  } = await createAgent(broker, { generators: [{ generator, pak, client }], labels: [label] })
  await broker.admin.agentsAddAnnotation({ params: { id: agent.id }, body: { agent_id: agent.id, key: 'k', value: label } })
  const stack = await client.createStack({
    body: { name: unique('s'), generator_id: generator.id, description: 'd', labels: [label], annotations: { k: label } },
  })
  await client.addTarget({ params: { id: agent.id }, body: { agent_id: agent.id, stack_id: stack.id } })
  const yaml_content = `apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: default}\nstringData: {password: "${canary}"}\ndata: {other: ${Buffer.from(canary).toString('base64')}}\n`
  const object = await client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content } })
  const template = await client.createTemplate({
    body: {
      name: unique('t'),
      template_content: `apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: "${canary}", other: "{{ a }}"}\n`,
      parameters_schema: '{}',
    },
  })
  const plan = await client.createPlan({ params: { id: stack.id }, body: { yaml_content } })
  await agentClient.recordHeartbeat({ params: { id: agent.id }, body: { k8s_reachable: true, facts: { preset: 'standard' } } })
  const about = { agent_id: agent.id, deployment_object_id: object.id }
  const event = await agentClient.createEvent({ params: { id: agent.id }, body: { ...about, event_type: 'APPLIED', status: 'SUCCESS' } })
  const checked_at = new Date().toISOString()
  const resources = [{ kind: 'DataFlow', name: unique('f'), namespace: 'default', ready: true, flow: { phase: 'Running' } }]
  const summary = { pods_ready: 1, pods_total: 1, conditions: [], resources }
  await agentClient.updateHealthStatus({
    params: { id: agent.id },
    body: { deployment_objects: [{ id: object.id, status: 'healthy', checked_at, summary }] },
  })
  await agentClient.reportStatus({
    params: { id: agent.id },
    body: { session: 1, n: 1, stacks: [{ stack_id: stack.id, rev: 1, object_id: object.id, phase: 'applied', observed_at: checked_at }] },
  })
  const [flow] = await client.listFlows({ query: { stack_id: stack.id } })
  return {
    generatorId: generator.id,
    generatorPak: pak,
    agentId: agent.id,
    agentPak,
    agentName: agent.name,
    stackId: stack.id,
    objectId: object.id,
    eventId: event.id,
    templateId: template.id,
    planId: plan.id,
    flowId: flow!.id,
    label,
    client,
    agent: agentClient,
  }
}

/** A call leaves these behind whether it is refused or not: what was denied, that its agent lives, who runs a task. */
const kept = new Set([
  'live_subscribers',
  'audit_logs',
  'agent_liveness',
  'task_leases',
  'agent_sessions',
  'feed_marks',
  'feed_state',
  'schema_migrations',
])
/** Last use of a key, written in the background. */
const leftOut: Readonly<Record<string, string>> = {
  admin_role: 'last_used_at',
  generators: 'last_active_at',
  console_sessions: 'idle_until',
}

/** Table → a digest of all its rows. */
export async function rowsOfAll(databaseUrl: string): Promise<Record<string, string>> {
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  try {
    const { rows } = await client.query<{ name: string }>(
      `select relname as name from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace and not relispartition order by 1`,
    )
    const state: Record<string, string> = {}
    for (const { name } of rows) {
      if (kept.has(name) || name.startsWith('audit_logs')) continue
      const found = await client.query<{ digest: string }>(
        `select count(*) || ' ' || coalesce(md5(string_agg(x.entry::text, ',' order by x.entry::text)), '') as digest
         from (select to_jsonb(t) - $1::text as entry from ${name} t) x`,
        [leftOut[name] ?? ''],
      )
      state[name] = found.rows[0]?.digest ?? ''
    }
    return state
  } finally {
    await client.end()
  }
}
