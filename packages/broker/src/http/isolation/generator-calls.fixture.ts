// The call of a tenant about its own things, for any operation, and the same call with one reference that names another's.
import { type Endpoint, fillPath, queryText } from '@brokkr/contract/endpoint.ts'
import { type EndpointName, endpoints } from '@brokkr/contract/endpoints.ts'
import { unique } from '@brokkr/testing/broker.ts'
import type { Tenant } from './two-generators.fixture.ts'

export interface TenantCall {
  readonly call: `${string} /${string}`
  readonly body: unknown
}
type Kind = 'flow' | 'plan' | 'template' | 'agent' | 'generator' | 'stack' | 'object' | 'event' | 'own'
export interface Reference {
  readonly name: EndpointName
  readonly in: 'params' | 'query' | 'body'
  /** With dots where it stands deeper; `[]` is a list. */
  readonly field: string
}

/** `foreign`: the one reference that names a thing of another tenant. */
export function tenantCall(name: EndpointName, tenant: Tenant, foreign?: { reference: Reference; tenant: Tenant }): TenantCall {
  const endpoint: Endpoint = endpoints[name]
  const id = foreign === undefined ? '' : idOf(foreign.tenant, kindOf(foreign.reference))
  const place = foreign?.reference.in
  const field = foreign?.reference.field ?? ''
  const own = (param: string): string => idOf(tenant, kindOf({ name, in: 'params', field: param }))
  const names = [...endpoint.path.matchAll(/\{(\w+)\}/g)].map((match) => match[1] ?? '')
  const params = Object.fromEntries(names.map((param) => [param, param === 'label' ? tenant.label : param === 'key' ? 'k' : own(param)]))
  const filled = fillPath(endpoint.path, place === 'params' ? { ...params, [field]: id } : params)
  const query = queryText({ ...queryOf(name, tenant), ...(place === 'query' ? { [field]: id } : {}) })
  const body = endpoint.body === undefined ? undefined : bodyOf(name, tenant)
  const sent = place === 'body' ? withId(onlyList(body, field), field, id) : body
  return { call: `${endpoint.method} ${filled.replace('/api/v1', '')}${query}` as `${string} /${string}`, body: sent }
}

const queryOf = (name: EndpointName, tenant: Tenant): Record<string, unknown> => {
  if (name === 'watch') return { scope: 'kind:stack' }
  return name === 'searchAgent' ? { name: tenant.agentName, cluster_name: tenant.agentName } : {}
}

/** What a field names: by its own name, or for a bare `id` by the path it stands in. */
function kindOf({ name, field, in: place }: Reference): Kind {
  const word = field.replace(/.*\./, '').replace('[]', '')
  const path = endpoints[name].path
  if (word.startsWith('agent_')) return 'agent'
  if (/^(generator_|pak_)/.test(word)) return 'generator'
  if (word.startsWith('stack_')) return 'stack'
  if (word.startsWith('template_')) return 'template'
  if (word.startsWith('plan_')) return 'plan'
  if (/^(deployment_)?object_id|^deployment_objects/.test(word) || /^deployment_objects\[\]\.id$/.test(field)) return 'object'
  if (place === 'body' && name.startsWith('createEvent')) return 'event'
  if (place !== 'params') return name === 'updateGenerator' ? 'generator' : 'stack'
  return path.includes('/stacks/')
    ? 'stack'
    : path.includes('/generators/')
      ? 'generator'
      : path.includes('/agents/')
        ? 'agent'
        : path.includes('/deployment-objects/')
          ? 'object'
          : path.includes('/agent-events/')
            ? 'event'
            : path.includes('/templates/')
              ? 'template'
              : path.includes('/plans/')
                ? 'plan'
                : path.includes('/flows/')
                  ? 'flow'
                  : 'own'
}

const idOf = (tenant: Tenant, kind: Kind): string =>
  ({
    agent: tenant.agentId,
    generator: tenant.generatorId,
    stack: tenant.stackId,
    object: tenant.objectId,
    event: tenant.eventId,
    template: tenant.templateId,
    plan: tenant.planId,
    flow: tenant.flowId,
    own: tenant.objectId,
  })[kind]

const time = new Date().toISOString()
const bodyOf = (name: EndpointName, tenant: Tenant): unknown =>
  ({
    createAgent: { name: unique('a'), cluster_name: 'c', generator_ids: [tenant.generatorId] },
    agentsAddLabel: { agent_id: tenant.agentId, label: 'x' },
    agentsAddAnnotation: { agent_id: tenant.agentId, key: 'x', value: 'y' },
    addTarget: { agent_id: tenant.agentId, stack_id: tenant.stackId },
    createEvent: {
      id: crypto.randomUUID(),
      agent_id: tenant.agentId,
      deployment_object_id: tenant.objectId,
      event_type: 'DEPLOY',
      status: 'FAILED',
    },
    createEvents: {
      events: [
        {
          id: crypto.randomUUID(),
          agent_id: tenant.agentId,
          deployment_object_id: tenant.objectId,
          event_type: 'DEPLOY',
          status: 'FAILED',
        },
      ],
    },
    updateHealthStatus: { deployment_objects: [{ id: tenant.objectId, status: 'failing', checked_at: time }] },
    reportStatus: {
      session: 9,
      n: 9,
      stacks: [{ stack_id: tenant.stackId, rev: 1, object_id: tenant.objectId, phase: 'failed', observed_at: time }],
    },
    updateGenerator: { id: tenant.generatorId, description: 'changed' },
    registerAgent: { agent_id: tenant.agentId },
    deregisterAgent: { agent_id: tenant.agentId },
    createStack: { name: unique('s'), generator_id: tenant.generatorId },
    updateStack: { id: tenant.stackId, generator_id: tenant.generatorId, description: 'changed' },
    stacksAddLabel: 'x',
    stacksAddAnnotation: { stack_id: tenant.stackId, key: 'x', value: 'y' },
    createFlowOrder: { action: 'pause' },
    previewFlow: { flow: {}, samples: [] },
    startRun: { revision: '1', kind: 'manual' },
    decidePromotion: { decision: 'approve', key: 'k' },
    rollbackStack: { deployment_object_id: tenant.objectId },
    holdStack: { reason: 'r' },
    createPlan: { yaml_content: 'a: 1' },
    reportPlanResult: {
      state: 'answered',
      summary: { create: 0, update: 0, delete: 0, unchanged: 0, denied: 0, unchecked: 0 },
      changes: [],
    },
    createDeploymentObject: { yaml_content: 'a: 1' },
    createGenerator: { name: unique('g') },
    createAdminPak: { name: unique('p') },
    createAgentInvite: { name: unique('i'), generator_ids: [tenant.generatorId] },
    join: {
      short_token: 'BRagentC',
      pak_hash: 'c'.repeat(64),
      cluster_uid: 'u',
      agent_version: '1',
      k8s_version: 'v1',
      sent_at: time,
    },
    pushTelemetry: {
      k8s_events: [
        {
          agent_id: tenant.agentId,
          stack_id: tenant.stackId,
          observed_at: time,
          reason: 'Started',
          message: 'm',
          event_type: 'Normal',
          involved_object: { api_version: 'v1', kind: 'Pod', name: 'p' },
        },
      ],
      pod_log_lines: [
        { agent_id: tenant.agentId, stack_id: tenant.stackId, namespace: 'n', pod: 'p', container: 'c', ts: time, line: 'l' },
      ],
      log_gaps: [{ agent_id: tenant.agentId, stack_id: tenant.stackId, since_ts: time, dropped_count: 1, reason: 'rate_limit' }],
    },
    reportInventory: { stack_id: tenant.stackId, rev: 1, full: true, nodes: [] },
    lintTemplate: { template_content: 'a: 1', parameters_schema: '{}', parameters: {} },
    createTemplate: { name: unique('t'), template_content: 'a: 1', parameters_schema: '{}' },
    updateTemplate: { template_content: 'a: 1', parameters_schema: '{}' },
    instantiateTemplate: { template_id: tenant.templateId, parameters: {} },
    templatesAddLabel: 'x',
    templatesAddAnnotation: { key: 'x', value: 'y' },
    createWorkOrder: { work_type: 'w', yaml_content: 'a: 1', targeting: { agent_ids: [tenant.agentId] } },
    claimWorkOrder: { agent_id: tenant.agentId },
    completeWorkOrder: { success: true },
    createWebhook: { name: 'w', url: 'https://example.com/', event_types: ['*'] },
    reportDeliveryResult: { success: true },
    replayDeliveries: { since: time },
    createDiagnosticRequest: { agent_id: tenant.agentId },
    submitDiagnosticResult: { pod_statuses: '[]', events: '[]', collected_at: time },
  })[name as string] ?? {}

/** Of several lists in a body only the one with the foreign reference, so that nothing else of the call takes effect. */
function onlyList(body: unknown, field: string): unknown {
  const [, list] = /^(\w+)\[\]/.exec(field) ?? []
  if (list === undefined || typeof body !== 'object' || body === null) return body
  return Object.fromEntries(Object.entries(body).filter(([key, value]) => key === list || !Array.isArray(value)))
}

function withId(value: unknown, path: string, id: string): unknown {
  const [key = '', ...rest] = path.split('.')
  if (key.endsWith('[]')) {
    const list = (value as Record<string, unknown[]>)[key.slice(0, -2)] ?? []
    return { ...(value as object), [key.slice(0, -2)]: list.map((item) => (rest.length === 0 ? id : withId(item, rest.join('.'), id))) }
  }
  return { ...(value as object), [key]: rest.length === 0 ? id : withId((value as Record<string, unknown>)[key], rest.join('.'), id) }
}
