// What a caller may do, by verb: the same check of the role that a call of that verb would pass. Ownership of a stack is checked by
// the permission rule of the endpoint.
import { type Access, Verb } from '@brokkr/contract/auth/admin-pak.ts'
import type { EndpointName } from '@brokkr/contract/endpoints.ts'
import type { Principal } from '../http/server/handler.ts'
import { checkRole, isListed } from './check-permit.ts'
import { type Rule, rules } from './permissions.ts'
import { deniedText } from './permit-tables.ts'

/** One operation that needs the verb and is open to every kind of caller that can have it. */
const operations: Readonly<Record<Verb, EndpointName>> = {
  read: 'getDeploymentObject',
  deploy: 'createDeploymentObject',
  operate: 'holdStack',
  approve: 'decidePromotion',
  notify: 'createWebhook',
  admin: 'createGenerator',
}

export const listAccess = (principal: Principal): Access[] => Verb.options.map((verb) => toAccess(verb, principal))

function toAccess(verb: Verb, principal: Principal): Access {
  const name = operations[verb]
  const rule: Rule = rules[name]
  const refusal = checkRole(rule, { name, principal, rawParams: {} })
  const code = refusal?.code ?? (isListed(rule, principal) ? null : 'forbidden')
  return { verb, allowed: code === null, code, reason: code === null ? null : deniedText(code) }
}
