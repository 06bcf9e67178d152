// Finds the stack of an object: a member, or owned by one over at most four hops. Cached, because events come in bursts about few
// objects.

import { groupKindOf, hasReason, identityKey, type Kube, type KubeObject, type ObjectRef } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { MemberIndex } from '../reconcile/member-index.ts'

export interface StackFinderDeps {
  readonly kube: Kube
  readonly clock: Clock
  readonly members: Pick<MemberIndex, 'findStacks'>
}
export type ObjectWithUid = ObjectRef & { readonly uid: string }
const rememberMs = 300_000
const hopsMax = 4

export class StackFinder {
  readonly #deps: StackFinderDeps
  readonly #max: number
  readonly #cache = new Map<string, { stackId: string | null; untilMs: number }>()

  constructor(deps: StackFinderDeps, max: number) {
    this.#deps = deps
    this.#max = max
  }

  async find(object: ObjectWithUid, signal: AbortSignal): Promise<string | null> {
    const cached = this.#cache.get(object.uid)
    if (cached && cached.untilMs > this.#deps.clock.monotonicMs()) return cached.stackId
    const stackId = await this.#climb(object, hopsMax, signal)
    this.#cache.delete(object.uid)
    this.#cache.set(object.uid, { stackId, untilMs: this.#deps.clock.monotonicMs() + rememberMs })
    if (this.#cache.size > this.#max) this.#cache.delete(this.#cache.keys().next().value ?? '')
    return stackId
  }

  async #climb(object: ObjectWithUid, hops: number, signal: AbortSignal): Promise<string | null> {
    const key = identityKey({ ...groupKindOf(object), namespace: object.namespace ?? '', name: object.name })
    const [member] = this.#deps.members.findStacks(key, object.uid)
    if (member !== undefined) return member
    if (hops === 0) return null
    const live = await this.#read(object, signal)
    for (const { apiVersion, kind, name, uid } of live?.metadata.ownerReferences ?? []) {
      const owner = await this.#climb({ apiVersion, kind, name, uid, namespace: object.namespace }, hops - 1, signal)
      if (owner !== null) return owner
    }
    return null
  }

  async #read(object: ObjectWithUid, signal: AbortSignal): Promise<KubeObject | undefined> {
    try {
      return await this.#deps.kube.find(object, { metadataOnly: true, signal })
    } catch (error) {
      if (hasReason(error, 'UnknownKind', 'NotFound', 'Forbidden')) return undefined
      throw error
    }
  }
}
