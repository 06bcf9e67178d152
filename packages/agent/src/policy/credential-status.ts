// Whether the broker accepts the agent, read from responses to its requests: a PAK that is refused for long freezes the agent, an
// outdated release must not delete. Failures and silence change nothing.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'

export interface BrokerResponse {
  readonly method: string
  /** Without the query. */
  readonly path: string
  readonly status: number
  readonly contentType: string | null
}
export type CredentialSignal = 'accepted' | 'refused' | 'outdated' | 'nothing'

/** Paths on which a refusal concerns the agent itself; elsewhere 403 concerns the resource. */
const aboutUs = /\/api\/v1\/agents\/[^/]+\/(stream|heartbeat|status|target-state)$/

export function toCredentialSignal({ method, path, status, contentType }: BrokerResponse): CredentialSignal {
  if (status === 426) return 'outdated'
  if (status === 401) return path.endsWith('/join') ? 'nothing' : 'refused'
  if (status === 403) return aboutUs.test(path) && !isHtml(contentType) ? 'refused' : 'nothing'
  // The HTML page of an intermediary is not a response of the broker.
  const isWord = status === 204 || status === 304 || (status < 300 && contentType !== null && !isHtml(contentType))
  return isWord && (aboutUs.test(path) || (method === 'POST' && path.endsWith('/auth/pak'))) ? 'accepted' : 'nothing'
}

const isHtml = (contentType: string | null): boolean => /\bhtml\b/.test(contentType ?? '')

export class CredentialStatus {
  readonly #deps: { clock: Clock; log: Log }
  readonly #frozenAfterMs: () => number
  #refusedSinceMs: number | null = null
  #isFrozen = false
  #isOutdated = false
  #onChange: () => void = () => undefined
  #onRefused: () => void = () => undefined

  constructor(deps: { clock: Clock; log: Log }, options: { frozenAfterMs: () => number }) {
    this.#deps = deps
    this.#frozenAfterMs = options.frozenAfterMs
  }

  /** Called when `isFrozen` or `isOutdated` changed. */
  onChange(listener: () => void): void {
    this.#onChange = listener
  }

  /** Called after each response that refuses the PAK. */
  onRefused(listener: () => void): void {
    this.#onRefused = listener
  }

  get isFrozen(): boolean {
    return this.#isFrozen
  }
  get isOutdated(): boolean {
    return this.#isOutdated
  }
  /** The last response refused the PAK, frozen or not. */
  get isRefused(): boolean {
    return this.#refusedSinceMs !== null
  }

  recordResponse(response: BrokerResponse): void {
    const before = `${this.#isFrozen} ${this.#isOutdated}`
    const credential = toCredentialSignal(response)
    this.#record(credential)
    if (before !== `${this.#isFrozen} ${this.#isOutdated}`) this.#onChange()
    if (credential === 'refused') this.#onRefused()
  }

  #record(credential: CredentialSignal): void {
    const { clock, log } = this.#deps
    if (credential === 'accepted') {
      if (this.#isFrozen) log.info('PAK accepted again, agent resumed')
      this.#refusedSinceMs = null
      this.#isFrozen = false
      this.#isOutdated = false
    } else if (credential === 'outdated') {
      if (!this.#isOutdated) log.warn('agent release outdated, deletions disabled')
      this.#isOutdated = true
    } else if (credential === 'refused') {
      // Only a refusal after the whole time freezes: one refusal before a long silence does not.
      this.#refusedSinceMs ??= clock.monotonicMs()
      if (this.#isFrozen || clock.monotonicMs() - this.#refusedSinceMs < this.#frozenAfterMs()) return
      this.#isFrozen = true
      log.warn('agent frozen: the broker refuses the PAK; set a valid one in agent.pak_file')
    }
  }
}
