// Decides whether and when a failed attempt is repeated. A POST is repeated only under its idempotency key, so that the broker
// performs the action once however many attempts arrive.
import type { ApiError, ConnectionError } from './errors.ts'

export type Decision = { readonly do: 'fail' } | { readonly do: 'retry'; readonly afterMs: number }

export interface Attempt {
  readonly error: ApiError | ConnectionError
  /** From 1. */
  readonly number: number
  readonly retriesMax: number
  /** 0 to 1. */
  readonly random: number
}

const statuses: ReadonlySet<number> = new Set([408, 429, 502, 503, 504])
const firstMs = 200
const delayMsMax = 10_000

export function decideRetry({ error, number, retriesMax, random }: Attempt): Decision {
  if (number > retriesMax || !isTransient(error)) return { do: 'fail' }
  const backoffMs = Math.min(delayMsMax, firstMs * 2 ** (number - 1))
  const saidMs = error.name === 'ApiError' ? (error.retryAfterSeconds ?? 0) * 1000 : 0
  // A broker that names a long wait is believed: the caller learns it instead of waiting.
  if (saidMs > delayMsMax) return { do: 'fail' }
  return { do: 'retry', afterMs: Math.max(saidMs, backoffMs * (0.5 + random / 2)) }
}

function isTransient(error: ApiError | ConnectionError): boolean {
  if (error.name === 'ConnectionError') return true
  // The first attempt is still being performed; its answer is replayed later.
  if (error.code === 'idempotency_in_progress') return true
  // A broker names the time of a passing condition; a 503 without it is a setting that is missing.
  const isPassing = error.status !== 503 || !error.hasBody || error.retryAfterSeconds !== undefined
  return statuses.has(error.status) && isPassing
}

/** Waits, or rejects with the reason of the signal. */
export async function delay(ms: number, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted()
  await new Promise<void>((resolve, reject) => {
    const onAbort = () => {
      clearTimeout(timer)
      reject(signal!.reason as Error)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort)
      resolve()
    }, ms)
    signal?.addEventListener('abort', onAbort, { once: true })
  })
}

export const randomShare = (): number => crypto.getRandomValues(new Uint32Array(1))[0]! / 2 ** 32

/** A random UUID. `crypto.randomUUID` is missing on pages that browsers do not count as secure. */
export function createKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  bytes[6] = (bytes[6]! & 0x0f) | 0x40
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}
