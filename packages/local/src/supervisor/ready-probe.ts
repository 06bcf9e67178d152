// Waits until a program is ready: an address answers 2xx, or a function of the caller returns true.
import { get } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

export type Ready = string | (() => Promise<boolean>)

/** False if `isRunning` returns false first; throws after the limit or if the signal is aborted. */
export async function waitUntilReady(
  ready: Ready,
  options: { isRunning: () => boolean; limitMs: number; signal: AbortSignal },
): Promise<boolean> {
  const deadlineMs = performance.now() + options.limitMs
  for (let round = 1; ; round++) {
    options.signal.throwIfAborted()
    if (!options.isRunning()) return false
    if (await withinMs(deadlineMs - performance.now(), isReady(ready), options.signal)) return options.isRunning()
    if (performance.now() >= deadlineMs) throw new Error(`not ready after ${options.limitMs / 1000} s`)
    await sleep(Math.min(500, 25 * round), undefined, { signal: options.signal })
  }
}

/** False if the probe does not answer within the limit. */
async function withinMs(limitMs: number, answer: Promise<boolean>, signal: AbortSignal): Promise<boolean> {
  const over = new AbortController()
  const timeout = sleep(Math.max(0, limitMs), false, { signal: AbortSignal.any([signal, over.signal]) }).catch(() => false)
  try {
    return await Promise.race([answer, timeout])
  } finally {
    over.abort()
  }
}

/** A probe that throws counts as "not yet". */
async function isReady(ready: Ready): Promise<boolean> {
  try {
    return typeof ready === 'string' ? await answers2xx(ready) : await ready()
  } catch {
    return false
  }
}

function answers2xx(url: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const request = get(url, { agent: false, timeout: 5000 }, (response) => {
      response.resume()
      resolve(response.statusCode !== undefined && response.statusCode >= 200 && response.statusCode < 300)
    })
    request.once('timeout', () => request.destroy(new Error('no answer within 5 s')))
    request.once('error', reject)
  })
}
