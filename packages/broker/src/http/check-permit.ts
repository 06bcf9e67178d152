// Decides one call by its rule. Who may call is told before anything is looked up, so that no id leaks; then the thing must
// exist; then it must be the caller's.
import { type EndpointName, endpoints } from '@brokkr/contract/endpoints.ts'
import { ApiError, type ErrorCode } from '@brokkr/contract/error.ts'
import { deniedText } from './denied-text.ts'
import type { Principal } from './handler.ts'
import { type Rule, rules, type Thing, type Who } from './permit.ts'
import { verbOf } from './verbs.ts'

/** The look-ups behind "exists" and "is the caller's". Deleted things are found too, and say so. */
export interface Things {
  stack(id: string): Promise<{ readonly generatorId: string; readonly isDeleted?: boolean } | null>
  deploymentObject(id: string): Promise<{ readonly stackId: string; readonly generatorId: string; readonly isDeleted?: boolean } | null>
  agent(id: string): Promise<{ readonly isDeleted?: boolean } | null>
  agentNamed(name: string, clusterName: string): Promise<{ readonly agentId: string } | null>
  generator(id: string): Promise<{ readonly isDeleted?: boolean } | null>
  agentHasStack(agentId: string, stackId: string): Promise<boolean>
}

export interface PermitRequest {
  readonly name: EndpointName
  readonly principal: Principal
  /** As they stand in the path: compared with the caller's own id before anybody looks whether they are well-formed. */
  readonly rawParams: Readonly<Record<string, string>>
  /** Checked parameters, query and body, asked for only when a step needs them. */
  readonly params: () => Readonly<Record<string, unknown>>
  readonly query: () => Readonly<Record<string, unknown>> | undefined
  readonly body: () => Promise<unknown>
}

/** Returns when the call is permitted; throws the 403 or 404 that answers it otherwise. */
export async function checkPermit(
  deps: { things: Things; onDenied: (request: PermitRequest, code: ErrorCode) => void },
  request: PermitRequest,
): Promise<void> {
  const rule: Rule = rules[request.name]
  const refusal = refuseRole(rule, request) ?? (await refuseThing(deps.things, rule, request))
  if (refusal === null) return
  if (refusal.status === 403) deps.onDenied(request, refusal.code)
  throw refusal
}

/** Pure: everything that can be told from the credential and the text of the path. */
export function refuseRole(
  rule: Rule,
  { name, principal, rawParams }: Pick<PermitRequest, 'name' | 'principal' | 'rawParams'>,
): ApiError | null {
  const endpoint = endpoints[name]
  const verb = verbOf(endpoint)
  const mutates = verb !== 'read'
  if (principal.readonly && mutates && rule.readersToo !== true) return denial('readonly')
  if (isRefusedEarly(rule, endpoint.path, { principal, rawParams })) return denial(codeFor(rule, principal))
  if (rule.credential !== undefined && (rule.credential === 'session') !== (principal.session !== null))
    return denial(codeFor(rule, principal))
  if (principal.kind === 'admin' && principal.scope !== null && !principal.scope.includes(verb)) return denial('scope_denied', { verb })
  if (principal.kind === 'generator' && !principal.isActive && mutates) return denial('generator_inactive')
  return null
}

const earlyCodes: ReadonlySet<ErrorCode> = new Set(['admin_required', 'agent_pak_required', 'forbidden'])

function isRefusedEarly(rule: Rule, path: string, { principal, rawParams }: Pick<PermitRequest, 'principal' | 'rawParams'>): boolean {
  const isNamed = rule.who.some((who) => kindOf[who] === principal.kind)
  if (!isNamed && (rule.thing === undefined || earlyCodes.has(codeFor(rule, principal)))) return true
  const [, owner, parameter = ''] = /^\/api\/v1\/(agent|generator)s\/\{(\w+)\}/.exec(path) ?? []
  if (owner === undefined || rule.openPath === true) return false
  return !isNamed || (principal.kind !== 'admin' && !(principal.kind === owner && rawParams[parameter]?.toLowerCase() === principal.id))
}

const kindOf = { A: 'admin', G: 'generator', Go: 'generator', Ag: 'agent', 'Ag*': 'agent', At: 'agent' } as const satisfies Record<
  Who,
  Principal['kind']
>

const codeFor = (rule: Rule, principal: Principal): ErrorCode =>
  typeof rule.denied === 'string' ? rule.denied : rule.denied[principal.kind]

function denial(code: ErrorCode, details?: Record<string, unknown>): ApiError {
  return new ApiError(code, deniedText(code), details === undefined ? {} : { details })
}

async function refuseThing(things: Things, rule: Rule, request: PermitRequest): Promise<ApiError | null> {
  const params = request.params()
  if (rule.ownGenerator !== undefined && request.principal.kind === 'generator') {
    const named = fieldOf(await request.body(), rule.ownGenerator.field)
    if (named !== request.principal.id) return denial(rule.ownGenerator.denied)
  }
  if (rule.thing === undefined) return null
  const { thing } = rule
  const from = thing.in === 'params' ? params : thing.in === 'query' ? request.query() : await request.body()
  const { principal } = request
  const found = await finders[thing.kind](things, { id: String(fieldOf(from, thing.field)), from, principal })
  if (found === null || (found.isDeleted === true && !showsDeleted(thing, request))) return denial(thing.missing ?? missing[thing.kind])
  return (await isPermitted(things, rule, { principal, found })) ? null : denial(codeFor(rule, principal))
}

/** A deleted thing is hidden, but where the rule or the caller's wish and rank say otherwise. */
function showsDeleted({ deletedToo, shows }: Thing, { principal, query }: PermitRequest): boolean {
  if (deletedToo === true && principal.kind !== 'generator') return true
  const isAskedFor = shows !== undefined && query()?.['include_deleted'] === true
  return isAskedFor && (principal.kind === 'admin' || (shows === 'owner' && principal.kind === 'generator'))
}

const missing = {
  agent: 'agent_not_found',
  namedAgent: 'agent_not_found',
  generator: 'generator_not_found',
  stack: 'stack_not_found',
  deploymentObject: 'deployment_object_not_found',
} as const satisfies Record<Thing['kind'], ErrorCode>

const fieldOf = (value: unknown, field: string): unknown =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[field] : undefined

interface Found {
  readonly agentId?: string
  readonly stackId?: string
  readonly generatorId?: string
  readonly isDeleted?: boolean
}

type Finder = (things: Things, asked: { id: string; from: unknown; principal: Principal }) => Promise<Found | null>

const finders: Readonly<Record<Thing['kind'], Finder>> = {
  // Its own credential proves that the caller exists.
  agent: async (things, { id, principal }) => (principal.kind === 'agent' && principal.id === id ? {} : things.agent(id)),
  namedAgent: async (things, { from }) => {
    const [name, clusterName] = [fieldOf(from, 'name'), fieldOf(from, 'cluster_name')]
    if (typeof name !== 'string' || typeof clusterName !== 'string')
      throw new ApiError('name_and_cluster_required', 'name and cluster_name are both needed in the query')
    return things.agentNamed(name, clusterName)
  },
  generator: async (things, { id }) => {
    const found = await things.generator(id)
    return found === null ? null : { ...found, generatorId: id }
  },
  stack: async (things, { id }) => {
    const found = await things.stack(id)
    return found === null ? null : { ...found, stackId: id }
  },
  deploymentObject: (things, { id }) => things.deploymentObject(id),
}

async function isPermitted(things: Things, rule: Rule, { principal, found }: { principal: Principal; found: Found }): Promise<boolean> {
  for (const who of rule.who) {
    if (kindOf[who] !== principal.kind) continue
    if (who === 'Go') return found.generatorId === principal.id
    if (who === 'Ag' && found.agentId !== undefined) return found.agentId === principal.id
    if (who === 'At') return found.stackId !== undefined && (await things.agentHasStack(principal.id, found.stackId))
    return true
  }
  return false
}
