// Checks one call against its rule: first the role, before any lookup, so that no id leaks; then the resource must exist; then the caller
// must have access to it.
import { type EndpointName, endpoints } from '@brokkr/contract/endpoints.ts'
import { ApiError, type ErrorCode } from '@brokkr/contract/errors.ts'
import { parseWatchScope, type WatchScope } from '../change-feed/rules.ts'
import type { Principal } from '../http/server/handler.ts'
import { type ResourceRule, type Rule, rules, type Who } from './permissions.ts'
import { deniedText, toVerb, type Verb } from './permit-tables.ts'

/** Lookups of resources and their owners. Deleted resources are returned with `isDeleted`. */
export interface ResourceLookups {
  stack(id: string): Promise<ResourceFacts<{ readonly generatorId: string }> | null>
  deploymentObject(id: string): Promise<ResourceFacts<{ readonly stackId: string; readonly generatorId: string }> | null>
  agent(id: string): Promise<ResourceFacts<object> | null>
  agentNamed(name: string, clusterName: string): Promise<{ readonly agentId: string } | null>
  generator(id: string): Promise<ResourceFacts<object> | null>
  /** Owner null: a system template. */
  template(id: string): Promise<ResourceFacts<{ readonly generatorId: string | null }> | null>
  plan(id: string): Promise<ResourceFacts<{ readonly stackId: string; readonly generatorId: string }> | null>
  flow(id: string): Promise<ResourceFacts<{ readonly stackId: string; readonly generatorId: string }> | null>
  agentHasStack(agentId: string, stackId: string): Promise<boolean>
}

/** `row` is the complete resource if the lookup reads it, so that handlers need not read it again. */
type ResourceFacts<Facts> = Facts & { readonly isDeleted?: boolean; readonly row?: unknown }

export interface PermitRequest {
  readonly name: EndpointName
  readonly principal: Principal
  /** Raw path parameters, compared with the caller's id before they are validated. */
  readonly rawParams: Readonly<Record<string, string>>
  /** Validated parameters, query and body, read only if a step needs them. */
  readonly params: () => Readonly<Record<string, unknown>>
  readonly query: () => Readonly<Record<string, unknown>> | undefined
  readonly body: () => Promise<unknown>
}

/** Returns the resource of a permitted call (null if it was not read completely); throws the 403 or 404 otherwise. */
export async function checkPermit(
  deps: { lookups: ResourceLookups; onDenied: (request: PermitRequest, code: ErrorCode) => void },
  request: PermitRequest,
): Promise<unknown> {
  const rule: Rule = rules[request.name]
  const decision = checkRole(rule, request) ?? (await checkResource(deps.lookups, rule, request))
  if (!(decision instanceof ApiError)) return decision.row ?? null
  if (decision.status === 403) deps.onDenied(request, decision.code)
  throw decision
}

/** Pure: uses only the credential and the raw path. */
export function checkRole(
  rule: Rule,
  { name, principal, rawParams }: Pick<PermitRequest, 'name' | 'principal' | 'rawParams'>,
): ApiError | null {
  const endpoint = endpoints[name]
  const verb = verbs[name]
  const mutates = verb !== 'read'
  if (principal.readonly && mutates && rule.readersToo !== true) return denial('readonly')
  if (isRoleDenied(rule, endpoint.path, { principal, rawParams })) return denial(codeFor(rule, principal))
  if (rule.credential !== undefined && (rule.credential === 'session') !== (principal.session !== null))
    return denial(codeFor(rule, principal))
  if (principal.kind === 'admin' && principal.scope !== null && !principal.scope.includes(verb)) return denial('scope_denied', { verb })
  if (principal.kind === 'generator' && !principal.isActive && mutates) return denial('generator_inactive')
  return null
}

/** Computed once, because verbs depend only on the endpoint. */
const verbs = Object.fromEntries(Object.entries(endpoints).map(([name, endpoint]) => [name, toVerb(endpoint)])) as Record<
  EndpointName,
  Verb
>
const ownPaths: ReadonlyMap<string, RegExpExecArray | null> = new Map(
  Object.values(endpoints).map(({ path }) => [path, /^\/api\/v1\/(agent|generator)s\/\{(\w+)\}/.exec(path)]),
)

const earlyCodes: ReadonlySet<ErrorCode> = new Set(['admin_required', 'agent_pak_required', 'forbidden'])

/** Whether the rule names callers of this kind. */
export const isListed = (rule: Rule, principal: Principal): boolean => rule.who.some((who) => principalKinds[who] === principal.kind)

function isRoleDenied(rule: Rule, path: string, { principal, rawParams }: Pick<PermitRequest, 'principal' | 'rawParams'>): boolean {
  const isNamed = isListed(rule, principal)
  if (!isNamed && (rule.thing === undefined || earlyCodes.has(codeFor(rule, principal)))) return true
  const [, owner, parameter = ''] = ownPaths.get(path) ?? []
  if (owner === undefined || rule.openPath === true) return false
  return !isNamed || (principal.kind !== 'admin' && !(principal.kind === owner && rawParams[parameter]?.toLowerCase() === principal.id))
}

const principalKinds = {
  admin: 'admin',
  anyGenerator: 'generator',
  owningGenerator: 'generator',
  readingGenerator: 'generator',
  pathAgent: 'agent',
  anyAgent: 'agent',
  targetedAgent: 'agent',
  joinToken: 'invite',
  loginLink: 'link',
} as const satisfies Record<Who, Principal['kind']>

const codeFor = (rule: Rule, principal: Principal): ErrorCode =>
  typeof rule.denied === 'string'
    ? rule.denied
    : principal.kind === 'invite' || principal.kind === 'link'
      ? 'forbidden'
      : rule.denied[principal.kind]

function denial(code: ErrorCode, details?: Record<string, unknown>): ApiError {
  return new ApiError(code, deniedText(code), details === undefined ? {} : { details })
}

async function checkResource(lookups: ResourceLookups, rule: Rule, request: PermitRequest): Promise<ApiError | ResourceResult> {
  const params = request.params()
  if (rule.ownGenerator !== undefined && request.principal.kind === 'generator') {
    const generatorId = readField(await request.body(), rule.ownGenerator.field)
    if (generatorId !== request.principal.id) return denial(rule.ownGenerator.denied)
  }
  if (rule.moreVerb !== undefined && request.principal.kind === 'admin' && request.principal.scope !== null) {
    const { field, verb } = rule.moreVerb
    if (readField(await request.body(), field) === true && !request.principal.scope.includes(verb)) return denial('scope_denied', { verb })
  }
  if (rule.watchScopes !== undefined && !(await isOwnScopes(lookups, request, rule.watchScopes)))
    return denial(codeFor(rule, request.principal))
  if (rule.thing === undefined) return {}
  const { thing } = rule
  const from = thing.in === 'params' ? params : thing.in === 'query' ? request.query() : await request.body()
  const { principal } = request
  const resource = await finders[thing.kind](lookups, { id: String(readField(from, thing.field)), from, principal })
  if (resource === null || (resource.isDeleted === true && !includesDeletedResource(thing, request)))
    return denial(thing.missing ?? notFoundCodes[thing.kind])
  return (await isPermitted(lookups, rule, { principal, resource })) ? resource : denial(codeFor(rule, principal))
}

/** Generators may watch themselves and their stacks, agents themselves and their targets. Invalid scopes are rejected later. */
async function isOwnScopes(lookups: ResourceLookups, { principal, query }: PermitRequest, field: string): Promise<boolean> {
  if (principal.kind === 'admin') return true
  const scopes = query()?.[field]
  for (const text of Array.isArray(scopes) ? scopes : []) {
    const scope = parseWatchScope(String(text))
    if (scope === null || !(await isOwnScope(lookups, principal, scope))) return false
  }
  return true
}

async function isOwnScope(lookups: ResourceLookups, principal: Principal, { kind, id }: WatchScope): Promise<boolean> {
  if (kind === principal.kind) return id === principal.id
  if (kind !== 'stack') return false
  if (principal.kind === 'agent') return lookups.agentHasStack(principal.id, id)
  return (await lookups.stack(id))?.generatorId === principal.id
}

/** A deleted resource is hidden unless the rule, or `include_deleted` of a permitted caller, shows it. */
function includesDeletedResource({ deletedToo, alsoDeleted, shows }: ResourceRule, { principal, query }: PermitRequest): boolean {
  if (alsoDeleted === true) return true
  if (deletedToo === true && principal.kind !== 'generator') return true
  const isAskedFor = shows !== undefined && query()?.['include_deleted'] === true
  return isAskedFor && (principal.kind === 'admin' || (shows === 'owner' && principal.kind === 'generator'))
}

const notFoundCodes = {
  agent: 'agent_not_found',
  namedAgent: 'agent_not_found',
  generator: 'generator_not_found',
  stack: 'stack_not_found',
  deploymentObject: 'deployment_object_not_found',
  template: 'template_not_found',
  plan: 'plan_not_found',
  flow: 'flow_not_found',
} as const satisfies Record<ResourceRule['kind'], ErrorCode>

/** All error codes of the rule of an endpoint, for the API description. */
export function refusalCodes(name: EndpointName): ErrorCode[] {
  const rule: Rule = rules[name]
  const { thing, ownGenerator, who } = rule
  return [
    ...(typeof rule.denied === 'string' ? [rule.denied] : Object.values(rule.denied)),
    ...(ownGenerator === undefined ? [] : [ownGenerator.denied]),
    ...(thing === undefined ? [] : [thing.missing ?? notFoundCodes[thing.kind]]),
    ...(thing?.kind === 'namedAgent' ? (['name_and_cluster_required'] as const) : []),
    ...(verbs[name] !== 'read' && who.some((one) => principalKinds[one] === 'generator') ? (['generator_inactive'] as const) : []),
  ]
}

const readField = (value: unknown, field: string): unknown =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[field] : undefined

interface ResourceResult {
  readonly agentId?: string
  readonly stackId?: string
  readonly generatorId?: string | null
  readonly isDeleted?: boolean
  readonly row?: unknown
}

type Finder = (lookups: ResourceLookups, request: { id: string; from: unknown; principal: Principal }) => Promise<ResourceResult | null>

const finders: Readonly<Record<ResourceRule['kind'], Finder>> = {
  // The credential proves that the calling agent exists.
  agent: async (lookups, { id, principal }) => (principal.kind === 'agent' && principal.id === id ? {} : lookups.agent(id)),
  namedAgent: async (lookups, { from }) => {
    const [name, clusterName] = [readField(from, 'name'), readField(from, 'cluster_name')]
    if (typeof name !== 'string' || typeof clusterName !== 'string')
      throw new ApiError('name_and_cluster_required', 'the query parameters name and cluster_name are required')
    return lookups.agentNamed(name, clusterName)
  },
  generator: async (lookups, { id }) => {
    const resource = await lookups.generator(id)
    return resource === null ? null : { ...resource, generatorId: id }
  },
  stack: async (lookups, { id }) => {
    const resource = await lookups.stack(id)
    return resource === null ? null : { ...resource, stackId: id }
  },
  deploymentObject: (lookups, { id }) => lookups.deploymentObject(id),
  template: (lookups, { id }) => lookups.template(id),
  plan: (lookups, { id }) => lookups.plan(id),
  flow: (lookups, { id }) => lookups.flow(id),
}

async function isPermitted(
  lookups: ResourceLookups,
  rule: Rule,
  { principal, resource }: { principal: Principal; resource: ResourceResult },
): Promise<boolean> {
  for (const who of rule.who) {
    if (principalKinds[who] !== principal.kind) continue
    if (who === 'owningGenerator') return resource.generatorId === principal.id
    if (who === 'readingGenerator') return resource.generatorId === null || resource.generatorId === principal.id
    if (who === 'pathAgent' && resource.agentId !== undefined) return resource.agentId === principal.id
    if (who === 'targetedAgent') return resource.stackId !== undefined && (await lookups.agentHasStack(principal.id, resource.stackId))
    return true
  }
  return false
}
