// The generator of each stack. Read from the broker if it is needed, cached, and stored with the applied object, so that an agent without
// its broker knows it.
import { type Impersonation, serviceAccountUser } from '@brokkr/kube'
import { z } from 'zod'
import type { Grant } from '../policy/policy.ts'

export interface GeneratorRef {
  readonly generatorId: string
  /** Name, if the broker sends it. */
  readonly name: string | null
}
/** Local rules by generator id. Names come from the broker and never widen rights. */
export interface GeneratorRules {
  readonly grants: Readonly<Record<string, readonly Grant[]>>
  /** Generator → `namespace/name` of its ServiceAccount. */
  readonly identities: Readonly<Record<string, string>>
  readonly identitiesRequired: boolean
}
/** Key of work orders, which have no generator, in grants and identities. */
export const workOrdersGenerator: GeneratorRef = { generatorId: '__work_orders__', name: null }

const Rows = z.array(z.object({ id: z.string(), generator_id: z.string(), generator_name: z.string().optional() }))
/** Lists the stacks of this agent at the broker. */
export type ListStacks = (signal: AbortSignal) => Promise<unknown>

export class StackGenerators {
  readonly #list: ListStacks
  readonly #cache = new Map<string, GeneratorRef>()

  constructor(list: ListStacks) {
    this.#list = list
  }

  /** Sets the generator stored in the cluster. */
  set(stackId: string, tenant: GeneratorRef): void {
    if (!this.#cache.has(stackId)) this.#cache.set(stackId, tenant)
  }

  get(stackId: string): GeneratorRef | null {
    return this.#cache.get(stackId) ?? null
  }

  forget(stackId: string): void {
    this.#cache.delete(stackId)
  }

  /** Throws if the broker is unreachable; null: the broker does not know the stack. */
  async find(stackId: string, signal: AbortSignal): Promise<GeneratorRef | null> {
    const cached = this.#cache.get(stackId)
    if (cached) return cached
    for (const row of Rows.parse(await this.#list(signal)))
      this.#cache.set(row.id, { generatorId: row.generator_id, name: row.generator_name ?? null })
    return this.#cache.get(stackId) ?? null
  }
}

export const needsGenerator = ({ identities, identitiesRequired }: GeneratorRules): boolean =>
  identitiesRequired || Object.keys(identities).length > 0

export function getGrants(tenant: GeneratorRef | null, { grants }: GeneratorRules): readonly Grant[] {
  return tenant === null ? [] : (findByGenerator(grants, tenant) ?? [])
}

/** own: the agent's identity. refused: no identity is configured. */
export type Identity = { readonly is: 'own' } | { readonly is: 'as'; readonly as: Impersonation } | { readonly is: 'refused' }

export function getIdentity(tenant: GeneratorRef | null, rules: GeneratorRules): Identity {
  const account = tenant === null ? undefined : findByGenerator(rules.identities, tenant)
  const [namespace = '', name = ''] = account?.split('/') ?? []
  if (account !== undefined) return { is: 'as', as: serviceAccountUser(namespace, name) }
  return rules.identitiesRequired ? { is: 'refused' } : { is: 'own' }
}

/** The id comes from the broker, so it must not reach inherited properties such as `constructor`. */
const findByGenerator = <T>(listed: Readonly<Record<string, T>>, { generatorId }: GeneratorRef): T | undefined =>
  Object.hasOwn(listed, generatorId) ? listed[generatorId] : undefined
