// Token bucket: limits lines per second. Pure except for the clock.

export class TokenBucket {
  readonly #perSecond: number
  readonly #nowMs: () => number
  #tokens: number
  #atMs: number

  constructor(perSecond: number, nowMs: () => number) {
    this.#perSecond = perSecond
    this.#nowMs = nowMs
    this.#tokens = perSecond
    this.#atMs = nowMs()
  }

  take(): boolean {
    const nowMs = this.#nowMs()
    this.#tokens = Math.min(this.#perSecond, this.#tokens + ((nowMs - this.#atMs) * this.#perSecond) / 1000)
    this.#atMs = nowMs
    if (this.#tokens < 1) return false
    this.#tokens--
    return true
  }
}
