// End of a flow: exit code and reason, bounded waits, and closing of connections.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText, toError } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { Fenced } from '../checkpoint/checkpoint.ts'
import { BatchNotWritten, FlowTerminated } from '../sinks/batch-writer.ts'
import type { FlowEnd } from './pipeline-options.ts'

const closeMs = 10_000

/** Signals that all parts of a flow share. */
export class FlowSignals {
  /** Stop reading, end waits, retry nothing. */
  readonly stopping = new AbortController()
  /** Records that are not written by now stay unwritten. */
  readonly ended = new AbortController()
  readonly #failure = new AbortController()

  /** Ends the flow with an error; commits and saves nothing more. */
  fail(error: unknown): void {
    this.#failure.abort(error)
    this.stopping.abort(toError(error))
  }

  get failure(): AbortSignal {
    return this.#failure.signal
  }
}

export function toFlowEnd(deps: { readonly log: Log; readonly redact: (text: string) => string }, thrown: unknown): FlowEnd {
  if (thrown instanceof BatchNotWritten) return { exitCode: 0, reason: 'asked to stop' }
  const isFenced = thrown instanceof Fenced || (thrown instanceof FlowTerminated && thrown.reason === 'fenced')
  deps.log.error(isFenced ? 'flow fenced by another processor' : 'flow failed', { error: toError(thrown) })
  return { exitCode: isFenced ? 3 : 1, reason: deps.redact(errorText(thrown)) }
}

/** Records that are unwritten at the end are no failure: the next process reads their messages again. */
export const ignoreUnwritten = (error: unknown): void => {
  if (!(error instanceof BatchNotWritten)) throw error
}

/** Resolves when the work is done or the signal is aborted. */
export async function waitUntil(work: Promise<unknown>, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const end = () => resolve()
  signal.addEventListener('abort', end, { once: true })
  await Promise.race([work, promise])
  signal.removeEventListener('abort', end)
}

/** Rejects with the reason of the signal. */
export function rejectOnAbort(signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>()
  signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
  promise.catch(() => {})
  return promise
}

/** Waits at most 10 s for connections to close; the process ends in any case. */
export async function closeAll(clock: Clock, closing: readonly Promise<unknown>[]): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = clock.setTimer(closeMs, () => resolve())
  await Promise.race([Promise.allSettled(closing), promise])
  timer.cancel()
}
