// A running server with a handful of known callers and things: plain arrays behind the interfaces the server is given, and
// handlers that count how often they were reached.
import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Endpoint, fillPath, queryText } from '@brokkr/contract/endpoint.ts'
import { type EndpointName, endpoints } from '@brokkr/contract/endpoints.ts'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { createLog } from '@brokkr/runtime/logging/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import type { ResourceLookups } from '../../auth/check-permit.ts'
import type { CallerName } from '../../auth/permissions.fixture.ts'
import { maskManifest } from '../../deployments/rules/mask-manifest.ts'
import {
  type AuthFailure,
  type AuthOptions,
  type CredentialRow,
  createAuthenticator,
  type SessionRow,
} from '../authentication/authenticate.ts'
import { responseSchema } from '../response/response-schema.ts'
import type { CorsSettings } from './cors.ts'
import { answered, type Handlers, type RequestContext } from './handler.ts'
import type { Load, OverloadLimits } from './overload.ts'
import type { DeniedCall } from './serve.ts'
import { type HttpLimits, startHttp } from './server.ts'
import type { TlsFiles } from './tls-files.ts'

const id = (n: number): string => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`
export const ids = {
  owner: id(1),
  foreignGenerator: id(2),
  itself: id(3),
  foreignAgent: id(4),
  stack: id(5),
  object: id(6),
  template: id(7),
  plan: id(8),
  flow: id(9),
  missing: id(99),
}
/** Agent, generator, stack, object and template of a call, all there or all missing. */
export const present = {
  agent: ids.itself,
  generator: ids.owner,
  stack: ids.stack,
  object: ids.object,
  template: ids.template,
  plan: ids.plan,
  flow: ids.flow,
}
export const absent = {
  agent: ids.missing,
  generator: ids.missing,
  stack: ids.missing,
  object: ids.missing,
  template: ids.missing,
  plan: ids.missing,
  flow: ids.missing,
}

const pakOf = (short: string): string => `brokkr_BR${short}_${short.repeat(5)}`
export const paks: Record<CallerName | 'scoped' | 'inactive' | 'expired', string> = {
  admin: pakOf('admin1'),
  reader: pakOf('reader'),
  owner: pakOf('owner1'),
  foreignGenerator: pakOf('gother'),
  itself: pakOf('agentA'),
  foreignAgent: pakOf('agentB'),
  scoped: pakOf('scoped'),
  inactive: pakOf('asPeep'),
  expired: pakOf('expire'),
}
/** Opens joining and nothing else. */
export const joinToken = `jt_invite_${'joins'.repeat(5)}`
/** Opens the exchange of a sign-in link, in its body. */
export const linkBody = JSON.stringify({ token: `one-time-short-${'signs'.repeat(5)}` })
export const unknownPak = pakOf('nobody')

export const hashOf = (pak: string): string =>
  createHash('sha256')
    .update(pak.split('_')[2] ?? '')
    .digest('hex')

const row = (pak: string, kind: CredentialRow['kind'], rest: Partial<CredentialRow> = {}): CredentialRow => ({
  kind,
  id: id(10),
  name: pak.slice(7, 15),
  pak_hash: hashOf(pak),
  readonly: false,
  scope: null,
  expires_in_ms: null,
  is_active: true,
  ...rest,
})
export const credentials = (): CredentialRow[] => [
  row(paks.admin, 'admin'),
  row(paks.reader, 'admin', { id: id(11), readonly: true }),
  row(paks.scoped, 'admin', { id: id(12), scope: ['read', 'deploy'] }),
  row(paks.expired, 'admin', { id: id(13), expires_in_ms: -1 }),
  row(paks.owner, 'generator', { id: ids.owner }),
  row(paks.foreignGenerator, 'generator', { id: ids.foreignGenerator }),
  row(paks.inactive, 'generator', { id: ids.owner, is_active: false }),
  row(paks.itself, 'agent', { id: ids.itself }),
  row(paks.foreignAgent, 'agent', { id: ids.foreignAgent }),
]

const inviteRow = row(joinToken, 'invite', { id: id(14) })

const linkRow = row(`x_y_${'signs'.repeat(5)}`, 'link', { id: id(15) })

const sessionToken = 'S'.repeat(43)
const sessionRow: SessionRow = {
  ...row(paks.admin, 'admin'),
  pak_hash: createHash('sha256').update(sessionToken).digest('hex'),
  session: id(20),
  idle_in_ms: 3_600_000,
}
/** A call by an admin's console session, as the console itself makes it. */
export const sessionHeaders = (server: { url: string }) => ({
  cookie: `brokkr_session=${sessionToken}`,
  origin: server.url,
  'x-brokkr-console': '1',
})

const lookups: ResourceLookups = {
  stack: async (stackId) => (stackId === ids.stack ? { generatorId: ids.owner } : null),
  deploymentObject: async (objectId) => (objectId === ids.object ? { stackId: ids.stack, generatorId: ids.owner } : null),
  agent: async (agentId) => (agentId === ids.itself || agentId === ids.foreignAgent ? {} : null),
  agentNamed: async (name) => (name === ids.itself ? { agentId: ids.itself } : null),
  generator: async (generatorId) => (generatorId === ids.owner ? {} : null),
  template: async (templateId) => (templateId === ids.template ? { generatorId: ids.owner } : null),
  plan: async (planId) => (planId === ids.plan ? { stackId: ids.stack, generatorId: ids.owner } : null),
  flow: async (flowId) => (flowId === ids.flow ? { stackId: ids.stack, generatorId: ids.owner } : null),
  agentHasStack: async (agentId, stackId) => agentId === ids.itself && stackId === ids.stack,
}

export interface Reached {
  readonly name: EndpointName
  readonly request: RequestContext & { params: unknown; query: unknown; body: unknown }
}
export interface TestOptions {
  readonly limits?: Partial<HttpLimits>
  readonly trustedProxies?: readonly string[]
  readonly lookupCredential?: (hash: string) => Promise<CredentialRow | null>
  readonly lookups?: Partial<ResourceLookups>
  readonly failures?: NonNullable<AuthOptions['failures']>
  /** Stands in for the counting handler of one endpoint; its value goes through the endpoint's writer. */
  readonly handler?: (request: Reached['request']) => unknown
  readonly isLive?: boolean
  readonly load?: Load
  readonly overload?: Partial<OverloadLimits>
  readonly cors?: () => CorsSettings
  readonly tls?: TlsFiles
}

export async function startTestServer(options: TestOptions = {}) {
  const seen = { reached: [] as Reached[], failures: [] as AuthFailure[], denied: [] as DeniedCall[], log: [] as string[] }
  const metrics = createMetrics()
  const log = createLog({ name: 'test', destination: { write: (line) => seen.log.push(line) } })
  const http = await startHttp(
    {
      clock: systemClock,
      log,
      metrics,
      ready: () => null,
      page: (path) => ({ body: `<p>page of ${path.length}</p>`, contentType: 'text/html' }),
      ...(options.load === undefined ? {} : { load: options.load }),
    },
    {
      host: '127.0.0.1',
      port: 0,
      version: '0.0.0',
      trustedProxies: options.trustedProxies ?? [],
      limits: options.limits ?? {},
      overload: options.overload ?? {},
      tls: options.tls ?? null,
      ...(options.cors === undefined ? {} : { cors: options.cors }),
    },
  )
  const rows = credentials()
  const authenticator = createAuthenticator(
    {
      clock: systemClock,
      metrics,
      lookupCredential: options.lookupCredential ?? (async (hash) => rows.find((entry) => entry.pak_hash === hash) ?? null),
      lookupInvite: async (hash) => (hash === inviteRow.pak_hash ? inviteRow : null),
      lookupLink: async ({ hash }) => (hash === linkRow.pak_hash ? linkRow : null),
      lookupSession: async (hash) => (hash === sessionRow.pak_hash ? sessionRow : null),
      trusted: () => true,
      onAuthFailure: (failure) => void seen.failures.push(failure),
    },
    { cacheTtlMs: () => 60_000, cookieName: 'brokkr_session', failures: options.failures ?? { burst: 100_000 } },
  )
  const live = {
    deps: null,
    handlers: countingHandlers(seen.reached, options.handler),
    authenticator,
    lookups: { ...lookups, ...options.lookups },
    onDenied: (denied: DeniedCall) => void seen.denied.push(denied),
    maskManifest: async (text: string) => maskManifest(text),
  }
  if (options.isLive !== false) http.goLive(live)
  return { ...seen, http, live, metrics, authenticator, url: `http://127.0.0.1:${http.port}`, close: () => http.close(0) }
}
export type TestServer = Awaited<ReturnType<typeof startTestServer>>

export function countingHandlers(reached: Reached[], handler?: TestOptions['handler']): Handlers<null> {
  const handlers = Object.entries(endpoints).map(([name, endpoint]) => [
    name,
    async (_: null, request: Reached['request']) => {
      reached.push({ name: name as EndpointName, request })
      if (handler !== undefined) return handler(request)
      return (endpoint as Endpoint).stream === true ? oneFrame(request.reply.hijack()) : sampleAnswer(endpoint)
    },
  ])
  return Object.fromEntries(handlers) as Handlers<null>
}

function oneFrame({ response }: { request: IncomingMessage; response: ServerResponse }): typeof answered {
  response.writeHead(200, { 'content-type': 'application/x-ndjson' }).end('{"type":"bye"}\n')
  return answered
}

export const sampleAnswer = (endpoint: Endpoint): unknown =>
  endpoint.response === undefined ? undefined : sample(responseSchema(endpoint.response))

function sample(schema: Record<string, unknown>): unknown {
  if (schema['nullable'] === true || [schema['type']].flat().includes('null')) return null
  if (Array.isArray(schema['enum'])) return schema['enum'][0]
  if (schema['type'] === 'object')
    return Object.fromEntries(
      Object.entries((schema['properties'] ?? {}) as Record<string, Record<string, unknown>>).map(([key, entry]) => [key, sample(entry)]),
    )
  if (schema['type'] === 'array') return [sample(schema['items'] as Record<string, unknown>)]
  if (schema['type'] === 'string')
    return schema['format'] === 'uuid' ? ids.stack : schema['format'] === 'date-time' ? '2026-01-02T03:04:05.000006Z' : 'text'
  return schema['type'] === 'boolean' ? false : 1
}

/** Something for every parameter that a path of the table has. */
export const pathValues = {
  id: ids.itself,
  stack_id: ids.stack,
  agent_id: ids.itself,
  label: 'env:prod',
  key: 'tier',
  namespace: 'shop',
  name: 'checkout',
}

/** A well-formed call of an endpoint about the given things. */
export function callOf(name: EndpointName, about: typeof present = present): { method: string; path: string; body: string | undefined } {
  const endpoint: Endpoint = endpoints[name]
  const idOfPath = endpoint.path.includes('/stacks/{id}')
    ? about.stack
    : endpoint.path.includes('/generators/{id}')
      ? about.generator
      : endpoint.path.includes('/deployment-objects/{id}')
        ? about.object
        : endpoint.path.includes('/templates/{id}')
          ? about.template
          : endpoint.path.includes('/flows/{id}')
            ? about.flow
            : endpoint.path.includes('/plans/{id}')
              ? about.plan
              : about.agent
  const path =
    fillPath(endpoint.path, { ...pathValues, id: idOfPath, stack_id: about.stack, agent_id: about.agent }) + queryText(queries(about)[name])
  const body = endpoint.body === undefined ? undefined : JSON.stringify(bodies(about)[name] ?? {})
  return { method: endpoint.method, path, body }
}

const queries = (about: typeof present): Partial<Record<EndpointName, Record<string, unknown>>> => ({
  watch: { scope: ['kind:stack'] },
  searchAgent: { name: about.agent, cluster_name: 'c' },
})

const time = '2026-01-02T03:04:05Z'
const bodies = (about: typeof present): Partial<Record<EndpointName, unknown>> => ({
  createAgent: { name: 'a', cluster_name: 'c' },
  agentsAddLabel: { agent_id: about.agent, label: 'env:prod' },
  agentsAddAnnotation: { agent_id: about.agent, key: 'tier', value: 'web' },
  addTarget: { agent_id: about.agent, stack_id: about.stack },
  reportStatus: { session: 1, n: 1, stacks: [{ stack_id: about.stack, rev: 1, object_id: null, phase: 'applied', observed_at: time }] },
  createEvent: { agent_id: about.agent, deployment_object_id: about.object, event_type: 'DEPLOY', status: 'SUCCESS' },
  createEvents: {
    events: [{ id: ids.missing, agent_id: about.agent, deployment_object_id: about.object, event_type: 'DEPLOY', status: 'SUCCESS' }],
  },
  updateHealthStatus: { deployment_objects: [{ id: about.object, status: 'healthy', checked_at: time }] },
  reportInventory: { stack_id: about.stack, rev: 1, full: true, nodes: [] },
  createTemplate: { name: 't', template_content: 'a: 1', parameters_schema: '{}' },
  lintTemplate: { template_content: 'a: 1', parameters_schema: '{}' },
  updateTemplate: { template_content: 'a: 1', parameters_schema: '{}' },
  instantiateTemplate: { template_id: ids.missing, parameters: {} },
  templatesAddLabel: 'env:prod',
  templatesAddAnnotation: { key: 'tier', value: 'web' },
  createWorkOrder: { work_type: 'w', yaml_content: 'a: 1' },
  claimWorkOrder: { agent_id: about.agent },
  completeWorkOrder: { success: true },
  appendWorkOrderOutput: { attempt: 1, offset: 0, text: 'x' },
  createWebhook: { name: 'w', url: 'https://example.test/', event_types: ['*'] },
  reportDeliveryResult: { success: true },
  replayDeliveries: { since: time },
  createDiagnosticRequest: { agent_id: about.agent },
  submitDiagnosticResult: { pod_statuses: '[]', events: '[]', collected_at: time },
  approvePrune: { removals: 1 },
  createFlowOrder: { action: 'pause' },
  previewFlow: { flow: {}, samples: [] },
  startRun: { revision: '1', kind: 'manual' },
  decidePromotion: { decision: 'approve', key: 'k' },
  createGenerator: { name: 'g' },
  registerAgent: { agent_id: about.agent },
  deregisterAgent: { agent_id: about.agent },
  createStack: { name: 's', generator_id: about.generator },
  stacksAddLabel: 'env:prod',
  stacksAddAnnotation: { stack_id: about.stack, key: 'tier', value: 'web' },
  rollbackStack: { sequence_id: 1 },
  holdStack: { reason: 'r' },
  createPlan: { yaml_content: 'a: 1' },
  reportPlanResult: {
    state: 'answered',
    summary: { create: 0, update: 0, delete: 0, unchanged: 0, denied: 0, unchecked: 0 },
    changes: [],
  },
  createDeploymentObject: { yaml_content: 'a: 1' },
  createAdminPak: { name: 'p' },
  exchangeLoginLink: { token: `one-time-unknown-${'x'.repeat(32)}` },
  join: {
    short_token: 'BRagentC',
    pak_hash: 'c'.repeat(64),
    cluster_uid: ids.missing,
    agent_version: '1.0.0',
    k8s_version: 'v1.36.0',
    sent_at: time,
  },
})

export interface CallOptions {
  readonly pak?: string | null
  readonly headers?: Record<string, string>
  readonly about?: typeof present
  readonly body?: string | Uint8Array
  readonly path?: string
}

export interface CallAnswer {
  readonly status: number
  readonly headers: Iterable<[string, string]> & { get(name: string): string | null; has(name: string): boolean }
  readonly text: string
  readonly json: { code?: string; details?: Record<string, unknown>; [key: string]: unknown } | null
}

export async function call(server: TestServer, name: EndpointName, options: CallOptions = {}): Promise<CallAnswer> {
  const { method, path, body } = callOf(name, options.about ?? present)
  const isLink = (endpoints[name] as Endpoint).credential === 'link'
  const sent = options.body ?? (isLink && options.pak === undefined ? linkBody : body)
  const pak = options.pak === undefined ? ((endpoints[name] as Endpoint).credential === 'join' ? joinToken : paks.admin) : options.pak
  const response = await fetch(server.url + (options.path ?? path), {
    method,
    redirect: 'manual',
    headers: {
      ...(pak === null ? {} : { authorization: `${pak.startsWith('jt_') ? 'Join' : 'Bearer'} ${pak}` }),
      ...(sent === undefined ? {} : { 'content-type': 'application/json' }),
      ...options.headers,
    },
    ...(sent === undefined ? {} : { body: sent }),
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, text, json: parsedOrNull(text) as CallAnswer['json'] }
}

function parsedOrNull(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
