// Nonces of accepted signatures, in one ConfigMap: a signature acts once, across replicas and restarts.
import { createHash } from 'node:crypto'
import { hasReason, type Kube } from '@brokkr/kube'
import { backoffDelayMs } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { CLOCK_SECONDS_MAX } from './signature.ts'

export const NONCES_CONFIG_MAP = 'brokkr-pipelines-nonces'
const NONCES_MAX = 4_096
const WAITING_MAX = 64
const TRIES_MAX = 12
/** Clocks of two replicas may differ: an entry outlives the last moment at which its signature is accepted. */
const MARGIN_SECONDS = 60

/** `full`: no more nonces fit, or too many calls wait. */
export type NonceResult = 'accepted' | 'used' | 'full'

export class NonceStore {
  readonly #deps: { kube: Kube; clock: Clock; namespace: string }
  #last: Promise<unknown> = Promise.resolve()
  #waiting = 0

  constructor(deps: { kube: Kube; clock: Clock; namespace: string }) {
    this.#deps = deps
  }

  /** Stores the nonce before the request acts. Calls of one process wait for each other, so that they do not conflict. */
  async use(
    nonce: { readonly key: string; readonly text: string; readonly timestampSeconds: number },
    signal: AbortSignal,
  ): Promise<NonceResult> {
    if (this.#waiting >= WAITING_MAX) return 'full'
    this.#waiting++
    const turn = this.#last.then(() => this.#store(nonce, signal))
    this.#last = turn.catch(() => undefined)
    try {
      return await turn
    } finally {
      this.#waiting--
    }
  }

  async #store(nonce: Parameters<NonceStore['use']>[0], signal: AbortSignal): Promise<NonceResult> {
    const hash = createHash('sha256').update(`${nonce.key}\n${nonce.text}`).digest('hex')
    const expiry = String(nonce.timestampSeconds + CLOCK_SECONDS_MAX + MARGIN_SECONDS)
    for (let tries = 0; ; tries++) {
      try {
        return await this.#tryStore(hash, expiry, signal)
      } catch (error) {
        if (!hasReason(error, 'Conflict', 'AlreadyExists') || tries >= TRIES_MAX) throw error
        await this.#deps.clock.sleep(backoffDelayMs({ baseMs: 10, maxMs: 500, jitter: 'full' }, tries), signal)
      }
    }
  }

  async #tryStore(hash: string, expiry: string, signal: AbortSignal): Promise<NonceResult> {
    const { kube, clock, namespace } = this.#deps
    const ref = { apiVersion: 'v1', kind: 'ConfigMap', namespace, name: NONCES_CONFIG_MAP }
    const stored = await kube.find(ref, { signal })
    if (stored === undefined) {
      const { apiVersion, kind, name } = ref
      await kube.create({ apiVersion, kind, metadata: { namespace, name }, data: { [hash]: expiry } }, { signal })
      return 'accepted'
    }
    const change = addNonce(stored.data ?? {}, { hash, expiry }, clock.now())
    if (change.result !== 'accepted') return change.result
    const body = { metadata: { resourceVersion: stored.metadata.resourceVersion }, data: change.patch }
    await kube.patch(ref, { type: 'merge', body }, { signal })
    return 'accepted'
  }
}

/** The change of the stored entries; expired ones are removed. Pure. */
export function addNonce(
  stored: Readonly<Record<string, unknown>>,
  nonce: { readonly hash: string; readonly expiry: string },
  nowMs: number,
): { result: 'accepted'; patch: Record<string, string | null> } | { result: 'used' | 'full' } {
  const expired = Object.keys(stored).filter((hash) => !(Number(stored[hash]) * 1000 > nowMs))
  if (Object.hasOwn(stored, nonce.hash) && !expired.includes(nonce.hash)) return { result: 'used' }
  if (Object.keys(stored).length - expired.length >= NONCES_MAX) return { result: 'full' }
  return { result: 'accepted', patch: { ...Object.fromEntries(expired.map((hash) => [hash, null])), [nonce.hash]: nonce.expiry } }
}
