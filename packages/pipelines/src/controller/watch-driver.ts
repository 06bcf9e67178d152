// Brings the running watches to what the Pipelines use now: clusters and kinds, stacks, and Secrets of blocked promotions.
import type { Clusters } from '../clusters/clusters.ts'
import { isStackApp, type PipelineUse, toUsedSet } from '../clusters/used-set.ts'
import { isOpen } from '../decide/newest.ts'
import { type DecideSettings, effectivePolicy } from '../decide/policy.ts'
import { type PipelineRecord, type PromotionRecord, phaseOf } from '../objects.ts'
import { findStackAccess, stackNameOf } from '../stacks/stack-access.ts'
import type { StackStates, StackUse } from '../stacks/stack-states.ts'
import { type SecretVersions, secretNameOf } from './read-secret.ts'
import type { Records } from './records.ts'
import type { WakeUps } from './wake-ups.ts'

export interface WatchDriverDeps {
  readonly records: Records
  readonly clusters: Clusters
  readonly stacks: StackStates
  readonly secrets: SecretVersions
  readonly wakeUps: WakeUps
  /** Forgets the reads of effects of promotions that have ended. */
  readonly keepEffectReads: (openUids: ReadonlySet<string>) => void
}

export class WatchDriver {
  readonly #deps: WatchDriverDeps
  /** What the watches of a Pipeline depend on, as it was last seen. */
  readonly #noted = new Map<string, string>()
  readonly #settings: DecideSettings
  readonly #brokerUrl: string | null

  constructor(deps: WatchDriverDeps, settings: { decide: DecideSettings; brokerUrl: string | null }) {
    this.#deps = deps
    this.#settings = settings.decide
    this.#brokerUrl = settings.brokerUrl
  }

  /** What a Pipeline reads; null: nothing. */
  toUse(pipeline: PipelineRecord | undefined): PipelineUse | null {
    if (pipeline === undefined || !pipeline.spec.ok || pipeline.isDeleting) return null
    const { spec } = pipeline.spec
    return { namespace: pipeline.namespace, spec, readsApps: effectivePolicy(spec, this.#settings).trigger === 'Watch' }
  }

  /**
   * Called for every change of a Pipeline or of one of its promotions. True: the watches may have to change. Nearly all changes are of a
   * status, and a computation over all Pipelines for each of them would take most of the processor.
   */
  noteChange(key: string): boolean {
    const pipeline = this.#deps.records.getPipeline(key)
    if (pipeline === undefined) {
      this.#deps.wakeUps.replaceUse(key, null)
      return this.#noted.delete(key)
    }
    const secrets = this.#deps.records.listPromotions(pipeline.uid).flatMap((promotion) => blockingSecretOf(promotion) ?? [])
    const text = [pipeline.uid, pipeline.generation, pipeline.isDeleting, ...secrets].join(' ')
    if (this.#noted.get(key) === text) return false
    this.#noted.set(key, text)
    this.#deps.wakeUps.replaceUse(key, this.toUse(pipeline))
    return true
  }

  drive(): void {
    const { records, clusters, stacks } = this.#deps
    const pipelines = [...records.listPipelines()]
    clusters.drive(toUsedSet(pipelines.flatMap((pipeline) => this.toUse(pipeline) ?? [])))
    stacks.drive(pipelines.flatMap((pipeline) => this.#stackUses(pipeline)))
    this.#driveSecrets(pipelines)
  }

  #stackUses(pipeline: PipelineRecord): (StackUse & { pipelineKey: string })[] {
    const use = this.toUse(pipeline)
    if (use === null || !use.readsApps || !isStackApp(use.spec.appRef)) return []
    const access = findStackAccess(pipeline, use.spec, this.#brokerUrl)
    if ('error' in access) return []
    const targets = use.spec.environments.flatMap((environment) => environment.targets)
    return targets.map((target) => ({ access, stack: stackNameOf(pipeline, use.spec, target), pipelineKey: pipeline.key }))
  }

  #driveSecrets(pipelines: readonly PipelineRecord[]): void {
    const { records, secrets, wakeUps } = this.#deps
    const blockedOn = new Map<string, Set<string>>()
    const open = new Set<string>()
    for (const pipeline of pipelines) {
      for (const promotion of records.listPromotions(pipeline.uid).filter(isOpen)) {
        open.add(promotion.uid)
        const key = blockingSecretOf(promotion)
        if (key !== null) blockedOn.set(key, (blockedOn.get(key) ?? new Set()).add(pipeline.key))
      }
    }
    this.#deps.keepEffectReads(open)
    wakeUps.replaceSecrets(blockedOn)
    secrets.drive(new Set(blockedOn.keys()))
  }
}

/** `namespace/name` of the Secret whose change ends the block of a promotion; null: it is not blocked, or needs no Secret. */
function blockingSecretOf(promotion: PromotionRecord): string | null {
  const name = phaseOf(promotion) === 'Blocked' ? secretNameOf(promotion) : null
  return name === null ? null : `${promotion.namespace}/${name}`
}
