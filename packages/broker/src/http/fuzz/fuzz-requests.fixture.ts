// A valid request for any operation of the table.
import { createHash } from 'node:crypto'

import { type Endpoint, fillPath } from '@brokkr/contract/endpoint.ts'
import { type EndpointName, endpoints } from '@brokkr/contract/endpoints.ts'
import { type CallerName, callers, permissions } from '../../auth/permissions.fixture.ts'
import type { Random } from './fuzz-random.fixture.ts'
import type { FuzzWorld, Spare } from './fuzz-world.fixture.ts'

export interface FuzzRequest {
  readonly name: EndpointName
  readonly method: string
  path: string
  query: [string, string][]
  headers: Record<string, string>
  body: unknown
  /** Sent as it stands instead of `body`. */
  raw: Buffer | null
  /** What was changed, for the report of a failure. */
  mutation: string
}

const spareOf: Partial<Record<EndpointName, Spare>> = {
  deleteAgent: 'agent',
  rotateAgentPak: 'agent',
  deleteGenerator: 'generator',
  rotateGeneratorPak: 'generator',
  deleteStack: 'stack',
  undeleteStack: 'deletedStack',
  createPlan: 'submittedStack',
  holdStack: 'submittedStack',
  getHold: 'heldStack',
  releaseStack: 'heldStack',
  rotateAdminPak: 'adminPak',
  revokeAdminPak: 'adminPak',
  getAgentInvite: 'invite',
  revokeAgentInvite: 'invite',
  deleteWebhook: 'webhook',
  deleteTemplate: 'template',
}

/** Operations that every agent may call, but only about what is its own: an invite, a work order, a diagnostic request. */
const ownOnly: ReadonlySet<EndpointName> = new Set([
  'registerAgent',
  'claimWorkOrder',
  'completeWorkOrder',
  'appendWorkOrderOutput',
  'getDiagnostic',
  'claimDiagnostic',
  'submitDiagnosticResult',
])
const isForeign = (name: EndpointName, caller: CallerName): boolean => ownOnly.has(name) && caller === 'foreignAgent'

/** Everything about it is right: somebody who may call, things that exist, a body that fits. */
export async function validRequest(world: FuzzWorld, random: Random, name: EndpointName): Promise<FuzzRequest> {
  const endpoint: Endpoint = endpoints[name]
  const kind = spareOf[name]
  const spare = kind === undefined ? null : await world.spare(kind)
  const allowed = callers.filter((one, n) => permissions[name][n] === 'ok' && (spare === null || one === 'admin') && !isForeign(name, one))
  const joins = endpoint.credential === 'join'
  const linkToken = endpoint.credential === 'link' ? await world.linkToken() : null
  const credential = joins
    ? await world.joinToken()
    : linkToken !== null
      ? ({} as Record<string, string>)
      : allowed.length === 0
        ? await world.session()
        : { authorization: `Bearer ${world.paks[random.pick(allowed)]}` }
  // A stack and its own object.
  const which = random.int(world.stackIds.length)
  const about = { agent: world.agent.agent.id, generator: world.tenant.generator.id, stack: world.stackIds[which]! }
  const hook = { webhook: world.webhookId, delivery: world.deliveryId }
  const ids = {
    ...about,
    ...hook,
    ...world.work,
    object: world.objectIds[which]!,
    event: world.eventId,
    template: world.templateId,
    labeledTemplate: world.labeledTemplateId,
    plan: world.planId,
    flow: world.flowId,
    ...(spare === null ? {} : { spare }),
  }
  const params = {
    id: idFor(endpoint.path, ids),
    agent_id: ids.agent,
    stack_id: ids.stack,
    label: 'l',
    key: 'k',
    namespace: 'shop',
    name: 'checkout',
  }
  return {
    name,
    method: endpoint.method,
    path: fillPath(endpoint.path, params),
    query: Object.entries(queries(world)[name] ?? {}),
    headers: credential,
    body:
      linkToken !== null ? { token: linkToken } : endpoint.body === undefined ? undefined : (bodies(world, random, ids)[name]?.() ?? {}),
    raw: null,
    mutation: 'none',
  }
}

interface Ids {
  readonly agent: string
  readonly generator: string
  readonly stack: string
  readonly object: string
  readonly event: string
  readonly template: string
  readonly labeledTemplate: string
  readonly plan: string
  readonly flow: string
  readonly webhook: string
  readonly delivery: string
  readonly pendingOrder: string
  readonly claimedOrder: string
  readonly finishedOrder: string
  readonly pendingDiagnostic: string
  readonly claimedDiagnostic: string
  readonly spare?: string
}

function idFor(path: string, ids: Ids): string {
  if (ids.spare !== undefined) return ids.spare
  if (path.includes('/stacks/{id}')) return ids.stack
  if (path.includes('/generators/{id}')) return ids.generator
  if (path.includes('/deployment-objects/{id}')) return ids.object
  if (path.includes('/agent-events/{id}')) return ids.event
  if (/\/templates\/\{id\}\/(labels|annotations)/.test(path)) return ids.labeledTemplate
  if (path.includes('/templates/{id}')) return ids.template
  if (path.includes('/plans/{id}')) return ids.plan
  if (path.includes('/flows/{id}')) return ids.flow
  if (path.includes('/webhooks/{id}')) return ids.webhook
  if (path.includes('/webhook-deliveries/{id}')) return ids.delivery
  if (/work-orders\/\{id\}\/(complete|output)/.test(path)) return ids.claimedOrder
  if (path.includes('/work-orders/{id}')) return ids.pendingOrder
  if (path.includes('/work-order-log/{id}')) return ids.finishedOrder
  if (path.includes('/diagnostics/{id}/result')) return ids.claimedDiagnostic
  if (path.includes('/diagnostics/{id}')) return ids.pendingDiagnostic
  return ids.agent
}

const queries = (world: FuzzWorld): Partial<Record<EndpointName, Record<string, string>>> => ({
  watch: { scope: 'kind:stack' },
  searchAgent: { name: world.agent.agent.name, cluster_name: world.agent.agent.cluster_name },
})

const time = '2026-01-02T03:04:05.000000Z'
export const yaml = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, namespace: default}\n'

const bodies = (world: FuzzWorld, random: Random, ids: Ids): Partial<Record<EndpointName, () => unknown>> => {
  const name = () => `n-${random.text(10)}`
  const event = () => ({ agent_id: ids.agent, deployment_object_id: ids.object, event_type: 'DEPLOY', status: 'SUCCESS' })
  const id = () => `00000000-0000-7000-8000-${random.text(12).replace(/[g-z]/g, '0')}`
  return {
    createAgent: () => ({ name: name(), cluster_name: 'c', generator_ids: [ids.generator], labels: ['l'], annotations: { k: 'v' } }),
    updateAgent: () => ({ status: random.pick(['ACTIVE', 'INACTIVE']) }),
    agentsAddLabel: () => ({ agent_id: ids.agent, label: name() }),
    agentsAddAnnotation: () => ({ agent_id: ids.agent, key: name(), value: 'v' }),
    approvePrune: () => ({ removals: random.int(10) + 1 }),
    addTarget: () => ({ agent_id: ids.agent, stack_id: ids.stack }),
    recordHeartbeat: () => ({ k8s_reachable: true, k8s_api_latency_ms: 3, facts: { a: 1 } }),
    reportStatus: () => ({
      session: 1,
      n: random.int(1000),
      stacks: [{ stack_id: ids.stack, rev: 1, object_id: ids.object, phase: 'applied', observed_at: time }],
    }),
    createEvent: event,
    createEvents: () => ({ events: [{ id: id(), ...event() }] }),
    updateHealthStatus: () => ({
      deployment_objects: [
        {
          id: ids.object,
          status: 'healthy',
          checked_at: time,
          summary: {
            pods_ready: 1,
            pods_total: 1,
            conditions: [],
            resources: [
              {
                kind: 'DataFlow',
                name: 'f',
                namespace: 'n',
                ready: false,
                message: name(),
                flow: { phase: 'Running', lag: { seconds: 1 } },
              },
            ],
          },
        },
      ],
    }),
    createGenerator: () => ({ name: name(), description: 'd' }),
    updateGenerator: () => ({ description: name() }),
    registerAgent: () => ({ agent_id: ids.agent }),
    deregisterAgent: () => ({ agent_id: world.otherAgent.agent.id }),
    createStack: () => ({ name: name(), generator_id: ids.generator, labels: ['l'], annotations: { k: 'v' } }),
    updateStack: () => ({ description: name() }),
    stacksAddLabel: name,
    stacksAddAnnotation: () => ({ stack_id: ids.stack, key: name(), value: 'v' }),
    rollbackStack: () => ({ deployment_object_id: ids.object }),
    holdStack: () => ({ reason: name() }),
    createFlowOrder: () =>
      random.pick([
        { action: 'pause' },
        { action: 'rewind', to: { offsets: { 0: random.int(9) } } },
        { action: 'replay', max: 1 },
        { action: 'skip', position: name() },
        { action: 'run' },
      ]),
    createPlan: () => ({ yaml_content: yaml }),
    reportPlanResult: () => ({
      state: 'answered',
      reason: name(),
      summary: { create: 1, update: 0, delete: 0, unchanged: random.int(9), denied: 0, unchecked: 0 },
      changes: [
        {
          group: '',
          kind: 'ConfigMap',
          namespace: 'default',
          name: name(),
          change: 'create',
          fields: [{ path: '/data/v', after: name() }],
          guard: null,
          message: null,
        },
      ],
    }),
    createDeploymentObject: () => ({ yaml_content: yaml }),
    createAdminPak: () => ({ name: name(), readonly: random.chance(0.5), expires_at: '2100-01-01T00:00:00Z' }),
    createAgentInvite: () => ({ name_prefix: name(), generator_ids: [ids.generator], labels: ['l'], annotations: { k: 'v' }, uses: 3 }),
    join: () => ({
      short_token: 'BRagentC',
      pak_hash: createHash('sha256').update(name()).digest('hex'),
      name: name(),
      cluster_name: 'c',
      cluster_uid: id(),
      agent_version: '1.0.0',
      k8s_version: 'v1.36.0',
      sent_at: new Date().toISOString(),
    }),
    previewFlow: () => ({ flow: { kind: 'DataFlow' }, samples: ['{}'] }),
    startRun: () => ({ revision: name(), kind: random.pick(['manual', 'rollback']), environments: ['prod'] }),
    decidePromotion: () => ({ decision: random.pick(['approve', 'reject']), key: name(), message: 'm' }),
    createSession: () => ({ readonly: true }),
    createLoginLink: () => ({ readonly: random.chance(0.5) }),
    pushTelemetry: () => {
      const sender = { agent_id: ids.agent, stack_id: ids.stack }
      const involved_object = { api_version: 'v1', kind: 'Pod', namespace: 'default', name: name(), uid: id() }
      return {
        k8s_events: [
          { ...sender, observed_at: time, reason: 'Started', message: name(), event_type: 'Normal', source: null, involved_object },
        ],
        pod_log_lines: [{ ...sender, namespace: 'default', pod: name(), container: 'c', ts: time, line: name() }],
        log_gaps: [{ ...sender, since_ts: time, dropped_count: random.int(100), reason: 'rate_limit' }],
      }
    },
    reportInventory: () => ({
      stack_id: ids.stack,
      rev: random.int(100),
      full: random.chance(0.5),
      nodes: [{ uid: id(), group: 'apps', kind: 'Deployment', namespace: 'default', name: name(), health: 'healthy' }],
      removed_uids: [id()],
    }),
    lintTemplate: () => ({ template_content: 'a: {{ x }}', parameters_schema: '{}', parameters: { x: random.int(9) } }),
    createTemplate: () => ({ name: name(), template_content: 'a: 1', parameters_schema: '{}' }),
    updateTemplate: () => ({ template_content: 'a: 1', parameters_schema: '{}' }),
    instantiateTemplate: () => ({ template_id: ids.template, parameters: { kind: name() } }),
    templatesAddLabel: name,
    templatesAddAnnotation: () => ({ key: name(), value: 'v' }),
    createWorkOrder: () => ({
      work_type: 'w',
      yaml_content: yaml,
      max_retries: 2,
      backoff_seconds: 5,
      claim_timeout_seconds: 60,
      targeting: { agent_ids: [ids.agent], labels: ['l'], annotations: { k: 'v' } },
    }),
    claimWorkOrder: () => ({ agent_id: ids.agent }),
    completeWorkOrder: () => ({ success: random.chance(0.5), message: 'm', retryable: true, attempt: 1 }),
    appendWorkOrderOutput: () => ({ attempt: 1, offset: 0, text: 'output' }),
    createWebhook: () => ({ name: name(), url: 'https://example.com/', event_types: ['stack.created'], filters: { stack_id: ids.stack } }),
    updateWebhook: () => ({ enabled: true, name: name(), event_types: ['stack.*'], max_retries: random.int(11) }),
    reportDeliveryResult: () => ({ success: true }),
    replayDeliveries: () => ({ since: time }),
    createDiagnosticRequest: () => ({ agent_id: ids.agent }),
    submitDiagnosticResult: () => ({ pod_statuses: '[]', events: '[]', log_tails: '{}', collected_at: time }),
  }
}
