// Waits for a condition: probes immediately, then with growing pauses up to `everyMs`. On timeout, the error names the condition,
// the limit and the last result.
import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'

export type WaitOptions = {
  /** Catches stalls only: ten times the need of a slow machine. */
  limitMs?: number
  /** Longest pause between two probes. */
  everyMs?: number
  /** Further text for the error: a log tail, the rows of a table. */
  onTimeout?: () => string | Promise<string>
}
type NotYet = undefined | false | null

/** The first value of `probe` that is not undefined, null or false. A probe that throws counts as "not yet". */
export async function waitFor<T>(what: string, probe: () => T | NotYet | Promise<T | NotYet>, options: WaitOptions = {}): Promise<T> {
  const { limitMs = 120_000, everyMs = 100 } = options
  const startedMs = performance.now()
  let pauseMs = 1
  for (let probes = 1; ; probes += 1) {
    const result = await withinLimit(attempt(probe), limitMs - (performance.now() - startedMs))
    if (result.is === 'there') return result.value
    const waitedMs = performance.now() - startedMs
    if (result.is === 'hung' || waitedMs >= limitMs) throw await timedOut({ what, waitedMs, probes, seen: describe(result), options })
    await sleep(Math.min(pauseMs, Math.max(1, limitMs - waitedMs)))
    pauseMs = Math.min(pauseMs * 2, Math.max(1, everyMs))
  }
}

type LastResult<T> = { is: 'there'; value: T } | { is: 'not yet'; value: NotYet } | { is: 'failed'; error: unknown } | { is: 'hung' }

async function attempt<T>(probe: () => T | NotYet | Promise<T | NotYet>): Promise<LastResult<T>> {
  try {
    const value = await probe()
    return value === undefined || value === null || value === false ? { is: 'not yet', value: value as NotYet } : { is: 'there', value }
  } catch (error) {
    return { is: 'failed', error }
  }
}

/** A probe that never ends must not exceed the limit; its late result is ignored. */
async function withinLimit<T>(answer: Promise<LastResult<T>>, limitMs: number): Promise<LastResult<T>> {
  const over = new AbortController()
  const hung = sleep(Math.max(1, limitMs), { is: 'hung' } as const, { signal: over.signal }).catch((): LastResult<T> => ({ is: 'hung' }))
  try {
    return await Promise.race([answer, hung])
  } finally {
    over.abort()
  }
}

function describe(seen: LastResult<unknown>): string {
  if (seen.is === 'hung') return 'The last probe did not answer.'
  if (seen.is !== 'failed') return `Last value: ${inspect(seen.value)}.`
  return `Last error: ${seen.error instanceof Error ? (seen.error.stack ?? seen.error.message) : inspect(seen.error)}`
}

async function timedOut(how: { what: string; waitedMs: number; probes: number; seen: string; options: WaitOptions }): Promise<Error> {
  const head = `Waited ${Math.round(how.waitedMs)} ms (${how.probes} ${how.probes === 1 ? 'probe' : 'probes'}) for ${how.what}, in vain. ${how.seen}`
  return new Error([head, await furtherText(how.options)].filter(Boolean).join('\n'))
}

async function furtherText(options: WaitOptions): Promise<string> {
  try {
    return (await options.onTimeout?.()) ?? ''
  } catch (error) {
    return `(no further text: ${error instanceof Error ? error.message : inspect(error)})`
  }
}
