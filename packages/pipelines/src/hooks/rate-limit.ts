// A fixed window per client, and which address is the client.

import type { Clock } from '@brokkr/runtime/clock.ts'
import { isInside } from '@brokkr/runtime/http-client/address.ts'

export interface RateLimitSettings {
  /** Calls per window. */
  readonly calls: number
  readonly windowMs: number
}

const CLIENTS_MAX = 10_000

export class RateLimit {
  readonly #clock: Clock
  readonly #settings: RateLimitSettings
  /** In order of their begin: windows have one length, so the first entry ends first. */
  readonly #windows = new Map<string, { startedMs: number; calls: number }>()

  constructor(clock: Clock, settings: RateLimitSettings) {
    this.#clock = clock
    this.#settings = settings
  }

  /** Counts a call. Null: it is allowed; else milliseconds until the next window. */
  count(client: string): number | null {
    const nowMs = this.#clock.monotonicMs()
    this.#removeEnded(nowMs)
    const window = this.#windows.get(client) ?? this.#open(client, nowMs)
    window.calls++
    return window.calls <= this.#settings.calls ? null : window.startedMs + this.#settings.windowMs - nowMs
  }

  #open(client: string, startedMs: number): { startedMs: number; calls: number } {
    const [oldest] = this.#windows.keys()
    if (this.#windows.size >= CLIENTS_MAX && oldest !== undefined) this.#windows.delete(oldest)
    const window = { startedMs, calls: 0 }
    this.#windows.set(client, window)
    return window
  }

  #removeEnded(nowMs: number): void {
    for (const [client, { startedMs }] of this.#windows) {
      if (startedMs + this.#settings.windowMs > nowMs) return
      this.#windows.delete(client)
    }
  }
}

/** The whole remote address. Headers of proxies count only when a trusted proxy sent them; the last address that is no such proxy wins. */
export function clientOf(
  remoteAddress: string,
  headers: Readonly<Record<string, string | string[] | undefined>>,
  trustedProxies: readonly string[],
): string {
  const remote = remoteAddress.replace(/^::ffff:(?=\d+\.)/, '')
  if (!isInside(remote, trustedProxies)) return remote
  const forwarded = [headers['x-forwarded-for'] ?? []].flat().join(',')
  const addresses = forwarded
    .split(',')
    .map((address) => address.trim())
    .filter((address) => address !== '')
  const [real] = [headers['x-real-ip'] ?? []].flat()
  return addresses.findLast((address) => !isInside(address, trustedProxies)) ?? real ?? remote
}
