// A valid request for any operation of the table.
import { createHash } from 'node:crypto'

import { type Endpoint, fillPath } from '@brokkr/contract/endpoint.ts'
import { type EndpointName, endpoints } from '@brokkr/contract/endpoints.ts'
import type { Random } from './fuzz-random.fixture.ts'
import type { FuzzWorld, Spare } from './fuzz-world.fixture.ts'
import { type CallerName, callers, permissions } from './permissions.fixture.ts'

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
  rotateAdminPak: 'adminPak',
  revokeAdminPak: 'adminPak',
  getAgentInvite: 'invite',
  revokeAgentInvite: 'invite',
  deleteWebhook: 'webhook',
}

/** An agent may register itself, but only with who invited it. */
const isUninvited = (name: EndpointName, caller: CallerName): boolean => name === 'registerAgent' && caller === 'foreignAgent'

/** Everything about it is right: somebody who may call, things that exist, a body that fits. */
export async function validRequest(world: FuzzWorld, random: Random, name: EndpointName): Promise<FuzzRequest> {
  const endpoint: Endpoint = endpoints[name]
  const kind = spareOf[name]
  const spare = kind === undefined ? null : await world.spare(kind)
  const allowed = callers.filter(
    (one, n) => permissions[name][n] === 'ok' && (spare === null || one === 'admin') && !isUninvited(name, one),
  )
  const joins = endpoint.credential === 'join'
  const credential = joins
    ? await world.joinToken()
    : allowed.length === 0
      ? await world.session()
      : { authorization: `Bearer ${world.paks[random.pick(allowed)]}` }
  // A stack and its own object.
  const which = random.int(world.stackIds.length)
  const about = { agent: world.agent.agent.id, generator: world.tenant.generator.id, stack: world.stackIds[which]! }
  const hook = { webhook: world.webhookId, delivery: world.deliveryId }
  const ids = { ...about, ...hook, object: world.objectIds[which]!, event: world.eventId, ...(spare === null ? {} : { spare }) }
  const params = { id: idFor(endpoint.path, ids), agent_id: ids.agent, stack_id: ids.stack, label: 'l', key: 'k' }
  return {
    name,
    method: endpoint.method,
    path: fillPath(endpoint.path, params),
    query: Object.entries(queries(world)[name] ?? {}),
    headers: credential,
    body: endpoint.body === undefined ? undefined : (bodies(world, random, ids)[name]?.() ?? {}),
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
  readonly webhook: string
  readonly delivery: string
  readonly spare?: string
}

function idFor(path: string, ids: Ids): string {
  if (ids.spare !== undefined) return ids.spare
  if (path.includes('/stacks/{id}')) return ids.stack
  if (path.includes('/generators/{id}')) return ids.generator
  if (path.includes('/deployment-objects/{id}')) return ids.object
  if (path.includes('/agent-events/{id}')) return ids.event
  if (path.includes('/webhooks/{id}')) return ids.webhook
  if (path.includes('/webhook-deliveries/{id}')) return ids.delivery
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
        { id: ids.object, status: 'healthy', checked_at: time, summary: { pods_ready: 1, pods_total: 1, conditions: [] } },
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
    createSession: () => ({ readonly: true }),
    createTemplate: () => ({ name: name(), template_content: 'a: 1', parameters_schema: '{}' }),
    updateTemplate: () => ({ template_content: 'a: 1', parameters_schema: '{}' }),
    instantiateTemplate: () => ({ template_id: ids.object, parameters: {} }),
    templatesAddLabel: name,
    templatesAddAnnotation: () => ({ key: name(), value: 'v' }),
    createWorkOrder: () => ({ work_type: 'w', yaml_content: yaml, targeting: { agent_ids: [ids.agent] } }),
    claimWorkOrder: () => ({ agent_id: ids.agent }),
    completeWorkOrder: () => ({ success: true }),
    createWebhook: () => ({ name: name(), url: 'https://example.com/', event_types: ['stack.created'], filters: { stack_id: ids.stack } }),
    updateWebhook: () => ({ enabled: true, name: name(), event_types: ['stack.*'], max_retries: random.int(11) }),
    reportDeliveryResult: () => ({ success: true }),
    replayDeliveries: () => ({ since: time }),
    createDiagnosticRequest: () => ({ agent_id: ids.agent }),
    submitDiagnosticResult: () => ({ pod_statuses: '[]', events: '[]', collected_at: time }),
  }
}
