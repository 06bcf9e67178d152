// Whether the broker still vouches for us, read from its answers to our own requests: a key that is refused for long freezes the
// agent, a release that is too old may no longer delete. Silence and failures say nothing: a broker that is away vouches as before.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'

export interface Answered {
  readonly method: string
  /** Without the query. */
  readonly path: string
  readonly status: number
  readonly contentType: string | null
}
export type Meaning = 'accepted' | 'refused' | 'outdated' | 'nothing'

/** Where a refusal can only be about us; elsewhere 403 is about what was asked for. */
const aboutUs = /\/api\/v1\/agents\/[^/]+\/(stream|heartbeat|status|target-state)$/

export function meaningOf({ method, path, status, contentType }: Answered): Meaning {
  if (status === 426) return 'outdated'
  if (status === 401) return path.endsWith('/join') ? 'nothing' : 'refused'
  if (status === 403) return aboutUs.test(path) && !isHtml(contentType) ? 'refused' : 'nothing'
  // A page that somebody in front of the broker serves is no word of the broker.
  const isWord = status === 204 || status === 304 || (status < 300 && contentType !== null && !isHtml(contentType))
  return isWord && (aboutUs.test(path) || (method === 'POST' && path.endsWith('/auth/pak'))) ? 'accepted' : 'nothing'
}

const isHtml = (contentType: string | null): boolean => /\bhtml\b/.test(contentType ?? '')

export class Vouch {
  readonly #deps: { clock: Clock; log: Log }
  readonly #frozenAfterMs: () => number
  #refusedSinceMs: number | null = null
  #isFrozen = false
  #isOutdated = false
  #onChange: () => void = () => undefined

  constructor(deps: { clock: Clock; log: Log }, options: { frozenAfterMs: () => number }) {
    this.#deps = deps
    this.#frozenAfterMs = options.frozenAfterMs
  }

  /** Called when `isFrozen` or `isOutdated` changed. */
  onChange(listener: () => void): void {
    this.#onChange = listener
  }

  get isFrozen(): boolean {
    return this.#isFrozen
  }
  get isOutdated(): boolean {
    return this.#isOutdated
  }
  /** Refused at the last word, whether frozen yet or not. */
  get isRefused(): boolean {
    return this.#refusedSinceMs !== null
  }

  heard(answered: Answered): void {
    const before = `${this.#isFrozen} ${this.#isOutdated}`
    this.#take(meaningOf(answered))
    if (before !== `${this.#isFrozen} ${this.#isOutdated}`) this.#onChange()
  }

  #take(meaning: Meaning): void {
    const { clock, log } = this.#deps
    if (meaning === 'accepted') {
      if (this.#isFrozen) log.info('the broker takes the key again; work goes on')
      this.#refusedSinceMs = null
      this.#isFrozen = false
      this.#isOutdated = false
    } else if (meaning === 'outdated') {
      if (!this.#isOutdated) log.warn('the broker asks for a newer agent: what runs is kept, nothing is deleted. Upgrade the agent')
      this.#isOutdated = true
    } else if (meaning === 'refused') {
      // Only a refusal that is repeated after the whole time freezes: one refusal before a long silence does not.
      this.#refusedSinceMs ??= clock.monotonicMs()
      if (this.#isFrozen || clock.monotonicMs() - this.#refusedSinceMs < this.#frozenAfterMs()) return
      this.#isFrozen = true
      log.warn('frozen: the broker refuses the key, so nothing is written to the cluster. Give the agent a valid key (agent.pak_file)')
    }
  }
}
