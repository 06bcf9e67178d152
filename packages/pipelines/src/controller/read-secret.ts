// Secrets beside a Pipeline: read with `get` at each attempt, and watched by name while a promotion is blocked on one.

import { hasReason, type Informer, type Kube, startInformer } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { PromotionRecord } from '../objects.ts'
import type { SecretContent } from '../strategies/strategy.ts'

const SECRET = { apiVersion: 'v1', kind: 'Secret' } as const

export async function readSecret(kube: Kube, at: { namespace: string; name: string }, signal: AbortSignal): Promise<SecretContent | null> {
  const object = await kube.find({ ...SECRET, ...at }, { signal })
  if (object === undefined) return null
  const data = Object.entries(object.data ?? {}).map(([key, value]) => [key, Buffer.from(String(value), 'base64')] as const)
  return { version: object.metadata.resourceVersion ?? '', data: Object.fromEntries(data) }
}

/** Names the Secret that a promotion's effect needs; null: none. */
export function secretNameOf({ spec: { strategy } }: PromotionRecord): string | null {
  return strategy['pull-request']?.secretRef.name ?? strategy.stack?.secretRef.name ?? null
}

/** Versions of the Secrets on which promotions are blocked. */
export class SecretVersions {
  readonly #deps: { kube: Kube; clock: Clock; log: Log; onChange: (secretKey: string) => void }
  readonly #watches = new Map<string, Informer<string>>()

  constructor(deps: { kube: Kube; clock: Clock; log: Log; onChange: (secretKey: string) => void }) {
    this.#deps = deps
  }

  /** Brings the watches to these Secrets (`namespace/name`). */
  drive(wanted: ReadonlySet<string>): void {
    for (const [key, watch] of this.#watches) {
      if (wanted.has(key)) continue
      this.#watches.delete(key)
      void watch.stop()
    }
    for (const key of wanted) if (!this.#watches.has(key)) this.#watches.set(key, this.#start(key))
  }

  /** Undefined: not known, for example because a watch is forbidden. An absent Secret has the version ''. */
  versionOf(key: string): string | undefined {
    const watch = this.#watches.get(key)
    if (watch === undefined || !watch.synced || hasReason(watch.lastError, 'Forbidden')) return undefined
    return watch.get(key) ?? ''
  }

  async stop(): Promise<void> {
    const watches = [...this.#watches.values()]
    this.#watches.clear()
    await Promise.all(watches.map((watch) => watch.stop()))
  }

  #start(key: string): Informer<string> {
    const [namespace = '', name = ''] = key.split('/')
    const { kube, clock, log, onChange } = this.#deps
    const options = { kind: SECRET, namespace, fieldSelector: `metadata.name=${name}`, metadataOnly: true }
    const watch = startInformer({ kube, clock, log }, { ...options, project: ({ metadata }) => metadata.resourceVersion ?? '' })
    watch.onChange(() => onChange(key))
    return watch
  }
}
