// The verb that an endpoint requires from an admin PAK with a scope. Derived from method and path by the first matching row, so that every
// new endpoint has a verb.
import type { Endpoint } from '@brokkr/contract/endpoint.ts'

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
