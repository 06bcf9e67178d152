// Whose stack is it? The broker knows the generator of each stack; what it said is remembered, and written down with the revision,
// so that an agent that starts without its broker still knows. Asked only where the answer matters.
import { type Impersonation, serviceAccountUser } from '@brokkr/kube/kube-config.ts'
import { z } from 'zod'
import { allGrants, type Grant } from '../policy.ts'

export interface Tenant {
  readonly generatorId: string
  /** Where the broker tells it. */
  readonly name: string | null
}
export interface TenantRules {
  readonly grants: Readonly<Record<string, readonly Grant[]>>
  /** Generator → `namespace/name` of the ServiceAccount that acts for it. */
  readonly identities: Readonly<Record<string, string>>
  readonly identitiesRequired: boolean
}
/** The platform's own stacks. */
const systemName = '__system__'

const Rows = z.array(z.object({ id: z.string(), generator_id: z.string(), generator_name: z.string().optional() }))
/** The stacks of this agent as the broker lists them. */
export type ListStacks = (signal: AbortSignal) => Promise<unknown>

export class Tenants {
  readonly #list: ListStacks
  readonly #known = new Map<string, Tenant>()

  constructor(list: ListStacks) {
    this.#list = list
  }

  /** What the cluster said at start. */
  found(stackId: string, tenant: Tenant): void {
    if (!this.#known.has(stackId)) this.#known.set(stackId, tenant)
  }

  known(stackId: string): Tenant | null {
    return this.#known.get(stackId) ?? null
  }

  forget(stackId: string): void {
    this.#known.delete(stackId)
  }

  /** Throws when the broker cannot be asked; null: it knows no such stack of ours. */
  async of(stackId: string, signal: AbortSignal): Promise<Tenant | null> {
    const known = this.#known.get(stackId)
    if (known) return known
    for (const row of Rows.parse(await this.#list(signal)))
      this.#known.set(row.id, { generatorId: row.generator_id, name: row.generator_name ?? null })
    return this.#known.get(stackId) ?? null
  }
}

export const needsTenant = ({ identities, identitiesRequired }: TenantRules): boolean =>
  identitiesRequired || Object.keys(identities).length > 0

export function grantsOf(tenant: Tenant | null, { grants }: TenantRules): readonly Grant[] {
  if (tenant?.name === systemName) return allGrants
  return tenant === null ? [] : (grants[tenant.generatorId] ?? grants[tenant.name ?? ''] ?? [])
}

/** own: the agent acts as itself · refused: nobody may act for it. */
export type Identity = { readonly is: 'own' } | { readonly is: 'as'; readonly as: Impersonation } | { readonly is: 'refused' }

export function identityFor(tenant: Tenant | null, rules: TenantRules): Identity {
  const account = tenant === null ? undefined : (rules.identities[tenant.generatorId] ?? rules.identities[tenant.name ?? ''])
  const [namespace = '', name = ''] = account?.split('/') ?? []
  if (account !== undefined) return { is: 'as', as: serviceAccountUser(namespace, name) }
  return rules.identitiesRequired && tenant?.name !== systemName ? { is: 'refused' } : { is: 'own' }
}
