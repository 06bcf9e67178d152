// Decides one call by its rule. Who may call is told before anything is looked up, so that no id leaks; then the thing must
// exist; then it must be the caller's.
import { type EndpointName, endpoints } from '@brokkr/contract/endpoints.ts'
import { ApiError, type ErrorCode } from '@brokkr/contract/error.ts'
import { parseWatchScope, type WatchScope } from '../domain/watch-scope.ts'
import { deniedText } from './denied-text.ts'
import type { Principal } from './handler.ts'
import { type Rule, rules, type Thing, type Who } from './permit.ts'
import { type Verb, verbOf } from './verbs.ts'

/** The look-ups behind "exists" and "is the caller's". Deleted things are found too, and say so. */
export interface Things {
  stack(id: string): Promise<Seen<{ readonly generatorId: string }> | null>
  deploymentObject(id: string): Promise<Seen<{ readonly stackId: string; readonly generatorId: string }> | null>
  agent(id: string): Promise<Seen<object> | null>
  agentNamed(name: string, clusterName: string): Promise<{ readonly agentId: string } | null>
  generator(id: string): Promise<Seen<object> | null>
  agentHasStack(agentId: string, stackId: string): Promise<boolean>
}

/** `row`: the whole of it, where the look-up reads it whole, so that nobody has to read it again. */
type Seen<Facts> = Facts & { readonly isDeleted?: boolean; readonly row?: unknown }

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

/** Returns what the call is about, as it was seen (null: not looked at, or not whole), when it is permitted; throws the 403 or 404
 *  that answers it otherwise. */
export async function checkPermit(
  deps: { things: Things; onDenied: (request: PermitRequest, code: ErrorCode) => void },
  request: PermitRequest,
): Promise<unknown> {
  const rule: Rule = rules[request.name]
  const decided = refuseRole(rule, request) ?? (await decideThing(deps.things, rule, request))
  if (!(decided instanceof ApiError)) return decided.row ?? null
  if (decided.status === 403) deps.onDenied(request, decided.code)
  throw decided
}

/** Pure: everything that can be told from the credential and the text of the path. */
export function refuseRole(
  rule: Rule,
  { name, principal, rawParams }: Pick<PermitRequest, 'name' | 'principal' | 'rawParams'>,
): ApiError | null {
  const endpoint = endpoints[name]
  const verb = verbs[name]
  const mutates = verb !== 'read'
  if (principal.readonly && mutates && rule.readersToo !== true) return denial('readonly')
  if (isRefusedEarly(rule, endpoint.path, { principal, rawParams })) return denial(codeFor(rule, principal))
  if (rule.credential !== undefined && (rule.credential === 'session') !== (principal.session !== null))
    return denial(codeFor(rule, principal))
  if (principal.kind === 'admin' && principal.scope !== null && !principal.scope.includes(verb)) return denial('scope_denied', { verb })
  if (principal.kind === 'generator' && !principal.isActive && mutates) return denial('generator_inactive')
  return null
}

/** Read once from the table: both hold for every call of an operation. */
const verbs = Object.fromEntries(Object.entries(endpoints).map(([name, endpoint]) => [name, verbOf(endpoint)])) as Record<
  EndpointName,
  Verb
>
const ownPaths: ReadonlyMap<string, RegExpExecArray | null> = new Map(
  Object.values(endpoints).map(({ path }) => [path, /^\/api\/v1\/(agent|generator)s\/\{(\w+)\}/.exec(path)]),
)

const earlyCodes: ReadonlySet<ErrorCode> = new Set(['admin_required', 'agent_pak_required', 'forbidden'])

function isRefusedEarly(rule: Rule, path: string, { principal, rawParams }: Pick<PermitRequest, 'principal' | 'rawParams'>): boolean {
  const isNamed = rule.who.some((who) => kindOf[who] === principal.kind)
  if (!isNamed && (rule.thing === undefined || earlyCodes.has(codeFor(rule, principal)))) return true
  const [, owner, parameter = ''] = ownPaths.get(path) ?? []
  if (owner === undefined || rule.openPath === true) return false
  return !isNamed || (principal.kind !== 'admin' && !(principal.kind === owner && rawParams[parameter]?.toLowerCase() === principal.id))
}

const kindOf = {
  A: 'admin',
  G: 'generator',
  Go: 'generator',
  Ag: 'agent',
  'Ag*': 'agent',
  At: 'agent',
  J: 'invite',
} as const satisfies Record<Who, Principal['kind']>

const codeFor = (rule: Rule, principal: Principal): ErrorCode =>
  typeof rule.denied === 'string' ? rule.denied : principal.kind === 'invite' ? 'forbidden' : rule.denied[principal.kind]

function denial(code: ErrorCode, details?: Record<string, unknown>): ApiError {
  return new ApiError(code, deniedText(code), details === undefined ? {} : { details })
}

async function decideThing(things: Things, rule: Rule, request: PermitRequest): Promise<ApiError | Found> {
  const params = request.params()
  if (rule.ownGenerator !== undefined && request.principal.kind === 'generator') {
    const named = fieldOf(await request.body(), rule.ownGenerator.field)
    if (named !== request.principal.id) return denial(rule.ownGenerator.denied)
  }
  if (rule.watchScopes !== undefined && !(await isOwnScopes(things, request, rule.watchScopes)))
    return denial(codeFor(rule, request.principal))
  if (rule.thing === undefined) return {}
  const { thing } = rule
  const from = thing.in === 'params' ? params : thing.in === 'query' ? request.query() : await request.body()
  const { principal } = request
  const found = await finders[thing.kind](things, { id: String(fieldOf(from, thing.field)), from, principal })
  if (found === null || (found.isDeleted === true && !showsDeleted(thing, request))) return denial(thing.missing ?? missing[thing.kind])
  return (await isPermitted(things, rule, { principal, found })) ? found : denial(codeFor(rule, principal))
}

/** Generators follow themselves and their stacks, agents themselves and the stacks they have. What is no scope is told later. */
async function isOwnScopes(things: Things, { principal, query }: PermitRequest, field: string): Promise<boolean> {
  if (principal.kind === 'admin') return true
  const asked = query()?.[field]
  for (const text of Array.isArray(asked) ? asked : []) {
    const scope = parseWatchScope(String(text))
    if (scope === null || !(await isOwnScope(things, principal, scope))) return false
  }
  return true
}

async function isOwnScope(things: Things, principal: Principal, { kind, id }: WatchScope): Promise<boolean> {
  if (kind === principal.kind) return id === principal.id
  if (kind !== 'stack') return false
  if (principal.kind === 'agent') return things.agentHasStack(principal.id, id)
  return (await things.stack(id))?.generatorId === principal.id
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
  readonly row?: unknown
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
