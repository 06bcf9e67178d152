// Which stack of ours an object belongs to: itself a member, or owned, over at most four hops, by one. Remembered for a while,
// because events come in bursts about the same few objects.
import { hasReason } from '@brokkr/kube/api-error.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import { groupKindOf, identityKey, type KubeObject, type ObjectRef } from '@brokkr/kube/object.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { MemberIndex } from '../reconcile/member-index.ts'

export interface StackOfDeps {
  readonly kube: Kube
  readonly clock: Clock
  readonly members: Pick<MemberIndex, 'stacksOf'>
}
export type Involved = ObjectRef & { readonly uid: string }
const rememberMs = 300_000
const hopsMax = 4

export class StackOf {
  readonly #deps: StackOfDeps
  readonly #max: number
  readonly #known = new Map<string, { stackId: string | null; untilMs: number }>()

  constructor(deps: StackOfDeps, max: number) {
    this.#deps = deps
    this.#max = max
  }

  async find(object: Involved, signal: AbortSignal): Promise<string | null> {
    const known = this.#known.get(object.uid)
    if (known && known.untilMs > this.#deps.clock.monotonicMs()) return known.stackId
    const stackId = await this.#climb(object, hopsMax, signal)
    this.#known.delete(object.uid)
    this.#known.set(object.uid, { stackId, untilMs: this.#deps.clock.monotonicMs() + rememberMs })
    if (this.#known.size > this.#max) this.#known.delete(this.#known.keys().next().value ?? '')
    return stackId
  }

  async #climb(object: Involved, hops: number, signal: AbortSignal): Promise<string | null> {
    const key = identityKey({ ...groupKindOf(object), namespace: object.namespace ?? '', name: object.name })
    const [member] = this.#deps.members.stacksOf(key, object.uid)
    if (member !== undefined) return member
    if (hops === 0) return null
    const live = await this.#read(object, signal)
    for (const { apiVersion, kind, name, uid } of live?.metadata.ownerReferences ?? []) {
      const found = await this.#climb({ apiVersion, kind, name, uid, namespace: object.namespace }, hops - 1, signal)
      if (found !== null) return found
    }
    return null
  }

  async #read(object: Involved, signal: AbortSignal): Promise<KubeObject | undefined> {
    try {
      return await this.#deps.kube.find(object, { metadataOnly: true, signal })
    } catch (error) {
      if (hasReason(error, 'UnknownKind', 'Forbidden')) return undefined
      throw error
    }
  }
}
