// Tables of the permission check: verbs by endpoint, and messages of denied calls by code.
import type { Endpoint } from '@brokkr/contract/endpoint.ts'
import type { ErrorCode } from '@brokkr/contract/errors.ts'

// The verb that an endpoint requires from an admin PAK with a scope. Derived from method and path by the first matching row, so that every
// new endpoint has a verb.

export type Verb = 'read' | 'approve' | 'notify' | 'admin' | 'deploy' | 'operate'

export function toVerb(endpoint: Pick<Endpoint, 'method' | 'path'>): Verb {
  const path = endpoint.path.slice('/api/v1'.length)
  const row = table.find(([methods, paths]) => methods.test(endpoint.method) && paths.test(path))
  return row?.[2] ?? 'operate'
}

const anyMethod = /^/
const mutation = /^(POST|PUT|PATCH|DELETE)$/
const table: readonly (readonly [methods: RegExp, paths: RegExp, verb: Verb])[] = [
  // Sessions and login links inherit the rights of their PAK; verifying a PAK changes nothing.
  [/^GET$/, /^(?!.*\/webhooks\/pending$)/, 'read'],
  [mutation, /^\/(auth\/(pak|session|links|exchange)|dataflow\/preview|templates\/lint)$/, 'read'],
  [mutation, /^\/promotions\/.*\/decision$/, 'approve'],
  // Reading pending deliveries claims them.
  [anyMethod, /^(\/webhooks(\/|$)|\/webhook-deliveries(\/|$)|.*\/webhooks\/pending$)/, 'notify'],
  [/^(POST|DELETE)$/, /^\/agents(\/\{\w+\})?$/, 'admin'],
  [mutation, /^\/agents\/\{\w+\}\/(rotate-pak|accept)$/, 'admin'],
  [mutation, /^\/(generators|agent-invites|admin)(\/|$)/, 'admin'],
  [mutation, /^\/agents\/\{\w+\}\/targets(\/|$)/, 'deploy'],
  [mutation, /^\/stacks(?!.*\/(holds?|rollouts?)(\/|$))(\/|$)/, 'deploy'],
  [mutation, /^\/(templates|plans|promotions|pipelines)(\/|$)/, 'deploy'],
]

/** Error messages of denied calls by code. They name the required credential and nothing about the resource. */
export const deniedText = (code: ErrorCode): string => texts[code] ?? 'this credential does not permit the call'

const texts: Partial<Record<ErrorCode, string>> = {
  admin_required: 'an admin PAK is required',
  readonly: 'this PAK is read-only; use a PAK with write permission',
  scope_denied: 'the scope of this PAK lacks the verb that this operation requires',
  forbidden: 'this kind of PAK may not call this operation',
  generator_required: 'an admin or generator PAK is required',
  generator_inactive: 'this generator is inactive and may only read; an admin can activate it',
  generator_not_owned: 'the PAK belongs to another generator',
  not_authorized: 'an admin PAK or the PAK of this generator is required',
  not_found: 'no resource has this id',
  agent_pak_mismatch: 'the PAK belongs to another agent or generator',
  stack_not_owned: 'the stack belongs to another generator',
  stack_not_accessible: 'the stack is neither owned by this caller nor targeted at it',
  stacks_list_denied: 'an admin or generator PAK is required to list stacks',
  stack_create_denied: 'an admin or generator PAK is required to create a stack',
  stack_generator_mismatch: 'a generator creates stacks for itself only',
  target_generator_mismatch: 'a generator targets its own stacks only',
  target_create_denied: 'an admin PAK or the PAK of the owning generator is required',
  agent_not_associated: 'the object is not targeted at this agent',
  generator_not_associated: 'the object belongs to another generator',
  template_not_accessible: 'the template belongs to another generator',
  template_not_owned: 'the template belongs to another generator',
  templates_not_accessible: 'an admin or generator PAK is required for templates',
  work_order_not_claimed_by_agent: 'the work order is not claimed by this caller',
  agent_pak_required: 'the PAK of an agent is required',
  diagnostic_not_owned: 'the diagnostic belongs to another agent',
  agent_not_found: 'no agent has this id',
  generator_not_found: 'no generator has this id',
  stack_not_found: 'no stack has this id',
  deployment_object_not_found: 'no deployment object has this id',
}
