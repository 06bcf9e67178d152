// A fleet for tests and screenshots: clusters and stacks of a real broker, with the reports that their agents would send. Reports go
// through the API with the keys of the agents.
import { randomUUID } from 'node:crypto'
import type { Client } from '@brokkr/contract/client.ts'
import type { DeploymentObject } from '@brokkr/contract/deployments/deployment-object.ts'
import type { Stack } from '@brokkr/contract/stacks/stack.ts'
import { createAgent, createGenerator, type TestAgent, type TestBroker, type TestGenerator } from './broker.ts'

export interface ReportedStack {
  readonly stack: Stack
  readonly object: DeploymentObject
}
export interface ConsoleWorld {
  readonly tenant: TestGenerator
  readonly clusters: readonly TestAgent[]
  readonly stacks: readonly ReportedStack[]
  /** A data flow on dev-1. */
  readonly flowId: string
}

const clusterNames = [
  'fra-1',
  'fra-2',
  'ams-1',
  'dub-1',
  'par-1',
  'iad-1',
  'iad-2',
  'edge-17',
  'edge-18',
  'edge-88',
  'stg-1',
  'dev-1',
] as const
const stackNames = ['shop', 'ledger', 'geo', 'search', 'billing', 'catalog', 'alerts', 'edge-proxy'] as const

/** Lets the broker send webhooks to this machine. */
export const consoleWorldEnv = { BROKKR__BROKER__WEBHOOK_ALLOWED_CIDRS: '127.0.0.1' }

export interface WorldOptions {
  /** Where the webhook of this world is received. */
  readonly hookUrl?: string
  /** Further clusters, for pictures. */
  readonly more?: number
}

export async function buildConsoleWorld(broker: TestBroker, options: WorldOptions = {}): Promise<ConsoleWorld> {
  const tenant = await createGenerator(broker, 'shop-ci')
  const clusters = await Promise.all(
    [...clusterNames, ...furtherNames(options.more ?? 0)].map((name) =>
      createAgent(broker, { name, labels: ['all', `env:${environmentOf(name)}`, `region:${name.split('-')[0]}`], generators: [tenant] }),
    ),
  )
  const stacks: ReportedStack[] = []
  for (const name of stackNames) stacks.push(await makeStack(tenant.client, tenant.generator.id, name))
  const beating = clusters.filter(({ agent }) => agent.name !== 'edge-88')
  for (const cluster of beating) await reportCluster(cluster, stacks)
  await addOperations(broker, tenant, options.hookUrl ?? 'http://127.0.0.1:9/hook')
  const flowId = await addFlow(broker, tenant, clusters.find(({ agent }) => agent.name === 'dev-1')!)
  return { tenant, clusters, stacks, flowId }
}

/** A stack with a data flow, reported as its agent would: running, behind, with dead letters. */
async function addFlow(
  { admin }: TestBroker,
  { client, generator }: TestGenerator,
  { agent, client: agentClient }: TestAgent,
): Promise<string> {
  const stack = await client.createStack({ body: { name: 'orders-flow', generator_id: generator.id, labels: ['env:dev'] } })
  const object = await client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: flowManifest } })
  const [params, now] = [{ id: agent.id }, new Date().toISOString()]
  const applied = { stack_id: stack.id, rev: object.sequence_id, object_id: object.id, phase: 'applied' as const, observed_at: now }
  await agentClient.reportStatus({ params, body: { session: 1, n: 2, stacks: [applied] } })
  const report = {
    phase: 'Running',
    read: 312_904,
    written: 285_118,
    dropped: 27_725,
    errors: 61,
    per_second: 312,
    lag: { seconds: 48 },
    observed_at: now,
  }
  const flow = { kind: 'DataFlow', namespace: 'orders', name: 'orders-to-kafka', ready: true, flow: report }
  const summary = { pods_ready: 1, pods_total: 1, conditions: [], resources: [flow] }
  await agentClient.updateHealthStatus({
    params,
    body: { deployment_objects: [{ id: object.id, status: 'healthy', checked_at: now, summary }] },
  })
  const [listed] = await admin.listFlows({ query: { name: 'orders-to-kafka' } })
  return listed!.id
}

const flowManifest = `apiVersion: dataflow.dataflow.io/v1
kind: DataFlow
metadata:
  name: orders-to-kafka
  namespace: orders
spec:
  source:
    type: kafka
    config:
      brokers: ["kafka:9092"]
      topic: orders
  transformations:
    - type: mask
      config:
        fields: [email, card]
    - type: router
      config:
        routes:
          - condition: $.region == 'US'
            name: US
            sink:
              type: kafka
              config:
                brokers: ["kafka:9092"]
                topic: orders-us
  sink:
    type: kafka
    config:
      brokers: ["kafka:9092"]
      topic: orders-masked
  errors:
    type: kafka
    config:
      brokers: ["kafka:9092"]
      topic: orders-dead
`

/** A template, a webhook and an open work order, so that no screen is empty. */
async function addOperations({ admin }: TestBroker, { client }: TestGenerator, hookUrl: string): Promise<void> {
  await client.createTemplate({
    body: {
      name: 'web',
      description: 'One web server with its replicas.',
      template_content:
        'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ name }}\n  namespace: shop\ndata:\n  replicas: "{{ replicas }}"\n',
      parameters_schema: JSON.stringify({
        type: 'object',
        required: ['name'],
        properties: {
          name: { type: 'string', description: 'Name of the object', default: 'flags' },
          replicas: { type: 'integer', default: 3, minimum: 1 },
        },
      }),
    },
  })
  await admin.createWebhook({ body: { name: 'ci', url: hookUrl, event_types: ['stack.*', 'workorder.*'] } })
  await admin.createWorkOrder({
    body: {
      work_type: 'migrate',
      yaml_content: 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: once\n  namespace: shop\n',
      targeting: { labels: ['env:dev'] },
    },
  })
}

const sites = ['fra', 'ams', 'dub', 'par', 'iad', 'edge', 'stg', 'dev'] as const
const furtherNames = (count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${sites[index % sites.length]}-${100 + Math.floor(index / sites.length)}`)

const environmentOf = (name: string): string =>
  name.startsWith('stg')
    ? 'staging'
    : name.startsWith('dev')
      ? 'dev'
      : name.startsWith('edge')
        ? 'edge'
        : name.startsWith('iad')
          ? 'prod-us'
          : 'prod-eu'

async function makeStack(client: Client, generator_id: string, name: string): Promise<ReportedStack> {
  const stack = await client.createStack({ body: { name, generator_id, labels: ['all'] } })
  await client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: manifestOf(name, 'web:1.8', 'first') } })
  const object = await client.createDeploymentObject({
    params: { id: stack.id },
    body: { yaml_content: manifestOf(name, 'web:1.9', 'second') },
  })
  return { stack, object }
}

export const manifestOf = (name: string, image: string, password: string): string => `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: ${name}
spec:
  replicas: 3
  selector:
    matchLabels:
      app: web
  template:
    metadata:
      labels:
        app: web
    spec:
      containers:
        - name: web
          image: ghcr.io/acme/${image}
---
apiVersion: v1
kind: Secret
metadata:
  name: db
  namespace: ${name}
stringData:
  password: ${password}
`

/** What a healthy agent reports: its heartbeat, one status per stack, health and objects. */
async function reportCluster({ agent, client }: TestAgent, stacks: readonly ReportedStack[]): Promise<void> {
  const params = { id: agent.id }
  const now = new Date().toISOString()
  await client.recordHeartbeat({
    params,
    body: {
      k8s_reachable: true,
      k8s_api_latency_ms: 4,
      agent_version: '1.7.2',
      k8s_version: 'v1.34.1',
      facts: { preset: 'standard', transport: 'stream' },
    },
  })
  const isBad = (name: string) => name === 'shop' && agent.name === 'edge-17'
  await client.reportStatus({
    params,
    body: {
      session: 1,
      n: 1,
      stacks: stacks.map(({ stack, object }) => ({
        stack_id: stack.id,
        rev: object.sequence_id,
        object_id: object.id,
        phase: isBad(stack.name) ? 'failed' : 'applied',
        ...(isBad(stack.name) ? { code: 'apply_failed', message: 'web: ImagePullBackOff ghcr.io/acme/web:1.9', attempts: 4 } : {}),
        observed_at: now,
      })),
    },
  })
  await client.updateHealthStatus({
    params,
    body: {
      deployment_objects: stacks.map(({ stack, object }) => ({
        id: object.id,
        status: isBad(stack.name) ? 'failing' : stack.name === 'geo' && agent.name === 'iad-1' ? 'degraded' : 'healthy',
        summary: { pods_ready: 3, pods_total: 3, conditions: [] },
        checked_at: now,
      })),
    },
  })
  await client.createEvents({ params, body: { events: stacks.flatMap((one) => eventsOf(agent.id, one, isBad(one.stack.name), now)) } })
  for (const { stack, object } of stacks.slice(0, 3))
    await client.reportInventory({
      params,
      body: { stack_id: stack.id, rev: object.sequence_id, full: true, nodes: nodesOf(stack.name, isBad(stack.name)) },
    })
}

function eventsOf(agent_id: string, { stack, object }: ReportedStack, isBad: boolean, occurred_at: string) {
  const event = { agent_id, deployment_object_id: object.id, sequence_id: object.sequence_id, attempt: 1, occurred_at }
  const applied = isBad
    ? { ...event, id: randomUUID(), event_type: 'FAILED', status: 'FAILURE', message: 'web: ImagePullBackOff ghcr.io/acme/web:1.9' }
    : { ...event, id: randomUUID(), event_type: 'DEPLOY', status: 'SUCCESS', message: '2 objects applied' }
  if (stack.name !== 'search') return [applied]
  const changes = [
    { kind: 'ConfigMap', namespace: 'search', name: 'flags', path: '.data.beta', manager: 'kubectl-edit', operation: 'Update' },
  ]
  return [applied, { ...event, id: randomUUID(), event_type: 'DRIFT', status: 'FAILURE', message: 'flags changed', changes }]
}

function nodesOf(namespace: string, isBad: boolean) {
  const node = (
    uid: string,
    group: string,
    kind: string,
    name: string,
    owner_uid: string | null,
    health: 'healthy' | 'failing' = 'healthy',
  ) => ({
    uid: `${namespace}-${uid}`,
    group,
    kind,
    namespace,
    name,
    owner_uid: owner_uid === null ? null : `${namespace}-${owner_uid}`,
    health,
    message: health === 'failing' ? 'ImagePullBackOff: ghcr.io/acme/web:1.9 not found' : null,
  })
  const state = isBad ? 'failing' : 'healthy'
  return [
    node('web', 'apps', 'Deployment', 'web', null, state),
    node('web-rs', 'apps', 'ReplicaSet', 'web-7d9', 'web', state),
    node('web-p1', '', 'Pod', 'web-7d9-x2', 'web-rs', state),
    node('web-p2', '', 'Pod', 'web-7d9-k8', 'web-rs'),
    node('web-p3', '', 'Pod', 'web-7d9-p1', 'web-rs'),
    node('worker', 'apps', 'Deployment', 'worker', null),
    node('worker-rs', 'apps', 'ReplicaSet', 'worker-5c4', 'worker'),
    node('worker-p1', '', 'Pod', 'worker-5c4-h3', 'worker-rs'),
    node('svc', '', 'Service', 'web', null),
    node('eps', 'discovery.k8s.io', 'EndpointSlice', 'web-x8k', 'svc'),
    node('ing', 'networking.k8s.io', 'Ingress', 'shop', null),
    node('flags', '', 'ConfigMap', 'flags', null),
    node('db', '', 'Secret', 'db', null),
  ]
}
