// How a flow ends: within its time, with a code that says why, and with everything closed that it opened.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText, toError } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { Fenced } from './checkpoint.ts'
import type { FlowEnd } from './pipeline-options.ts'
import { FlowEnded, Unwritten } from './writer.ts'

const closeMs = 10_000

export function endOf(deps: { readonly log: Log; readonly redact: (text: string) => string }, thrown: unknown): FlowEnd {
  if (thrown instanceof Unwritten) return { exitCode: 0, reason: 'asked to stop' }
  const isFenced = thrown instanceof Fenced || (thrown instanceof FlowEnded && thrown.why === 'fenced')
  deps.log.error(isFenced ? 'another processor has taken the flow' : 'the flow failed', { error: toError(thrown) })
  return { exitCode: isFenced ? 3 : 1, reason: deps.redact(errorText(thrown)) }
}

/** What stays unwritten at the end is read again by the next process: no failure. */
export const ignoreUnwritten = (error: unknown): void => {
  if (!(error instanceof Unwritten)) throw error
}

/** Until the work is done or its time is over, whichever comes first. */
export async function inTime(work: Promise<unknown>, over: AbortSignal): Promise<void> {
  const end = Promise.withResolvers<void>()
  const give = () => end.resolve()
  over.addEventListener('abort', give, { once: true })
  await Promise.race([work, end.promise])
  over.removeEventListener('abort', give)
}

/** A part that does not close is left behind: the process ends anyway. */
export async function closeAll(clock: Clock, closing: readonly Promise<unknown>[]): Promise<void> {
  const over = Promise.withResolvers<void>()
  const timer = clock.setTimer(closeMs, () => over.resolve())
  await Promise.race([Promise.allSettled(closing), over.promise])
  timer.cancel()
}
