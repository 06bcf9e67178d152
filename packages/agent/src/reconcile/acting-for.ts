// Everything done for a stack is done as the identity that its generator was given in this cluster: lists, dry runs, writes and
// deletes. The agent's own records stay the agent's.
import type { ReconcileDeps } from './deps.ts'
import type { Problem } from './problem.ts'
import { identityFor, needsTenant, type Tenant } from './tenants.ts'

export type Acting = { readonly ok: true; readonly deps: ReconcileDeps } | { readonly ok: false; readonly problem: Problem }

export function actingFor(deps: ReconcileDeps, tenant: Tenant | null): Acting {
  const rules = deps.settings.tenants
  // Acting as ourselves because nobody knows whose stack it is would be the hole that identities are to close.
  if (tenant === null && needsTenant(rules))
    return refused('unavailable', 'nobody knows yet which generator the stack belongs to: it is tried again when the broker says so')
  const identity = identityFor(tenant, rules)
  if (identity.is === 'refused')
    return refused('policy_denied', `generator ${tenant?.name ?? tenant?.generatorId} has no identity in this cluster (agent.identities)`)
  return { ok: true, deps: identity.is === 'own' ? deps : { ...deps, kube: deps.kube.with({ as: identity.as }) } }
}

const refused = (code: 'unavailable' | 'policy_denied', message: string): Acting => ({
  ok: false,
  problem: { phase: 'failed', code, message },
})
