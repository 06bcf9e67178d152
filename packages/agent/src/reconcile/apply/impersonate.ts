// Runs all requests for a stack with the identity of its generator: lists, dry runs, writes and deletes. The agent's own Secrets use the
// agent's identity.
import type { ReconcileDeps } from '../deps.ts'
import type { Problem } from '../problem.ts'
import { type GeneratorRef, getIdentity, needsGenerator } from '../stack-generators.ts'

export type Impersonated<Deps> = { readonly ok: true; readonly deps: Deps } | Refused
interface Refused {
  readonly ok: false
  readonly problem: Problem
}

export function impersonateGenerator<Deps extends Pick<ReconcileDeps, 'kube' | 'settings'>>(
  deps: Deps,
  tenant: GeneratorRef | null,
): Impersonated<Deps> {
  const rules = deps.settings.tenants
  // Falling back to the agent's identity for an unknown generator would bypass the identities.
  if (tenant === null && needsGenerator(rules))
    return refused('unavailable', 'the generator of the stack is unknown: retried after the broker has sent it')
  const identity = getIdentity(tenant, rules)
  if (identity.is === 'refused')
    return refused('policy_denied', `generator ${tenant?.name ?? tenant?.generatorId} has no identity in this cluster (agent.identities)`)
  return { ok: true, deps: identity.is === 'own' ? deps : { ...deps, kube: deps.kube.with({ as: identity.as }) } }
}

const refused = (code: 'unavailable' | 'policy_denied', message: string): Refused => ({
  ok: false,
  problem: { phase: 'failed', code, message },
})
