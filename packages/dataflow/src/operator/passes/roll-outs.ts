// Limits how many flows an upgrade of the operator rolls at once. A flow that was not ready before takes no place: it would hold it for ever.
// Flows that roll are also recognized by an annotation of their Deployment, so that the limit holds across a change of the leader.
import { type KubeObject, numberAt } from '@brokkr/kube'
import { annotation } from '../names.ts'

/** Whether all desired pods run the current template and are ready. */
export function isRolledOut(deployment: KubeObject): boolean {
  const replicas = numberAt(deployment, 'spec', 'replicas') ?? 1
  const at = (name: string): number => numberAt(deployment, 'status', name) ?? 0
  return (
    at('observedGeneration') >= (deployment.metadata.generation ?? 0) &&
    at('updatedReplicas') === replicas &&
    at('readyReplicas') === replicas &&
    at('replicas') === replicas
  )
}

const isUpgrading = (deployment: KubeObject): boolean =>
  deployment.metadata.annotations?.[annotation.upgrading] !== undefined && !isRolledOut(deployment)

export class UpgradePlaces {
  readonly #max: number
  readonly #deployments: { list(): Iterable<KubeObject> }
  /** Deployment → generation after the upgrade; undefined until it is written. */
  readonly #granted = new Map<string, number | undefined>()
  readonly #waiting = new Set<string>()

  constructor(options: { readonly max: number; readonly deployments: { list(): Iterable<KubeObject> } }) {
    this.#max = options.max
    this.#deployments = options.deployments
  }

  /** `flow` waits if there is no place. */
  take(deployment: KubeObject, flow: string): boolean {
    const key = keyOf(deployment)
    if (!this.#granted.has(key) && this.#usedPlaces().size >= this.#max) {
      this.#waiting.add(flow)
      return false
    }
    this.#waiting.delete(flow)
    this.#granted.set(key, undefined)
    return true
  }

  /** The upgrade is written. */
  note(deployment: KubeObject): void {
    if (this.#granted.has(keyOf(deployment))) this.#granted.set(keyOf(deployment), deployment.metadata.generation ?? 0)
  }

  /** The write failed. */
  release(deployment: KubeObject): void {
    this.#granted.delete(keyOf(deployment))
  }

  /** Flows that may go on now, as many as there are places. They wait no longer; one that gets no place after all waits again. */
  wake(): string[] {
    if (this.#waiting.size === 0) return []
    const ready = [...this.#waiting].slice(0, Math.max(0, this.#max - this.#usedPlaces().size))
    for (const flow of ready) this.#waiting.delete(flow)
    return ready
  }

  #usedPlaces(): ReadonlySet<string> {
    const used = new Set<string>()
    const live = new Map<string, KubeObject>()
    for (const deployment of this.#deployments.list()) {
      live.set(keyOf(deployment), deployment)
      if (isUpgrading(deployment)) used.add(keyOf(deployment))
    }
    for (const [key, generation] of this.#granted) {
      const deployment = live.get(key)
      const isSeen = deployment !== undefined && generation !== undefined && (deployment.metadata.generation ?? 0) >= generation
      const hasEnded = isSeen ? isRolledOut(deployment) : deployment === undefined && generation !== undefined
      if (hasEnded) this.#granted.delete(key)
      else used.add(key)
    }
    return used
  }
}

const keyOf = ({ metadata: { namespace, name } }: KubeObject): string => `${namespace}/${name}`
