// Turns changes of applications, clusters and Secrets into names of Pipelines to pass over. A wake-up has a name, never content.
import { AppIndex, type ClusterId, type PipelineUse, type UsedKind } from '../clusters/used-set.ts'

export class WakeUps {
  readonly #index = new AppIndex()
  readonly #listeners: ((pipelineKey: string) => void)[] = []
  #bySecret: ReadonlyMap<string, ReadonlySet<string>> = new Map()

  /** All listeners are added before the first change. */
  onWake(listener: (pipelineKey: string) => void): void {
    this.#listeners.push(listener)
  }

  replaceUse(pipelineKey: string, use: PipelineUse | null): void {
    this.#index.replace(pipelineKey, use)
  }

  /** Secrets (`namespace/name`) on which promotions are blocked, with their Pipelines. */
  replaceSecrets(pipelinesBySecret: ReadonlyMap<string, ReadonlySet<string>>): void {
    this.#bySecret = pipelinesBySecret
  }

  pipelineChanged(pipelineKey: string): void {
    for (const listener of this.#listeners) listener(pipelineKey)
  }

  appChanged(cluster: ClusterId, kind: UsedKind, key: string): void {
    for (const pipelineKey of this.#index.byApp(cluster, kind, key)) this.pipelineChanged(pipelineKey)
  }

  clusterChanged(cluster: ClusterId): void {
    for (const pipelineKey of this.#index.byCluster(cluster)) this.pipelineChanged(pipelineKey)
  }

  secretChanged(secretKey: string): void {
    for (const pipelineKey of this.#bySecret.get(secretKey) ?? []) this.pipelineChanged(pipelineKey)
  }
}
