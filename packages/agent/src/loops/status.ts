// Tells the broker how the stacks stand and what happened: at once when something ends, else within a second; with nothing to tell it
// sleeps until what we hold is compared again. Whatever could not be told stays and is told later; only what the broker refuses for
// good is given up, and counted.
import type { Client } from '@brokkr/contract/client.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import type { StackReport } from '@brokkr/contract/stream.ts'
import type { AgentId } from '@brokkr/contract/wire.ts'
import { backoffDelayMs, jittered } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import type { Follow } from '../follow.ts'
import type { AgentMetrics } from '../metrics.ts'
import type { Outbox } from '../reconcile/outbox.ts'
import { isNotServed, isRefusedForGood, sendEvents } from './send-events.ts'

export interface StatusDeps {
  readonly client: Client
  readonly agentId: AgentId
  readonly outbox: Outbox
  readonly follow: Pick<Follow, 'summary' | 'restart'>
  readonly clock: Clock
  readonly log: Log
  readonly metrics: AgentMetrics
  readonly everyMs: number
  readonly digestMs: number
}
export interface StatusLoop extends Loop {
  /** How long news should still wait; a busy agent sends its rows in batches. */
  pauseMs(): number
  /** Reports are numbered within the broker's session. */
  begin(session: number): void
}
const rowsMax = 200
const busyRows = 10
const awayMaxMs = 30_000
/** How long a broker without this operation is left alone. */
const unservedMs = 60_000

export function statusLoop(deps: StatusDeps): StatusLoop {
  // Without a session, as when polling, the clock makes later reports the newer ones, also across restarts.
  let place = { session: 0, n: deps.clock.now() }
  let failures = 0
  let sentAtMs = Number.NEGATIVE_INFINITY
  let lastRows = 0
  let servedFromMs = Number.NEGATIVE_INFINITY
  let checkDueMs = deps.clock.monotonicMs() + jittered(deps.digestMs, 0.2)

  async function sendRows(signal: AbortSignal): Promise<number> {
    let sent = 0
    for (let round = 0; ; round++) {
      const stacks = deps.outbox.nextRows(rowsMax)
      const check = round === 0 && deps.clock.monotonicMs() >= checkDueMs ? deps.follow.summary() : null
      // A broker of the first version has no such operation; the rows wait for one that has.
      if ((stacks.length === 0 && check === null) || deps.clock.monotonicMs() < servedFromMs) return sent
      if (!(await report(stacks, check, signal))) return sent
      lastRows = stacks.length
      sentAtMs = deps.clock.monotonicMs()
      deps.outbox.rowsDone(stacks)
      sent += stacks.length
    }
  }

  /** False: not taken, and to be kept. */
  async function report(stacks: readonly StackReport[], check: ReturnType<Follow['summary']>, signal: AbortSignal): Promise<boolean> {
    try {
      place.n++
      const body = { ...place, stacks: [...stacks], ...(check === null ? {} : { received_cursor: check.cursor, check }) }
      const answer = await deps.client.reportStatus({ params: { id: deps.agentId }, body }, { signal })
      if (check !== null) compared(answer.check)
      return true
    } catch (error) {
      if (isNotServed(error)) {
        servedFromMs = deps.clock.monotonicMs() + unservedMs
        return false
      }
      return differently(stacks, check, error, signal)
    }
  }

  /** What the broker refuses for good is narrowed down to the part it means. */
  async function differently(
    stacks: readonly StackReport[],
    check: ReturnType<Follow['summary']>,
    error: unknown,
    signal: AbortSignal,
  ): Promise<boolean> {
    if (!isRefusedForGood(error)) throw error
    if (check !== null) {
      checkDueMs = deps.clock.monotonicMs() + jittered(deps.digestMs, 0.2)
      if (error instanceof ApiError && error.code === 'bad_cursor') deps.follow.restart('bad_cursor')
      return stacks.length === 0 || report(stacks, null, signal)
    }
    if (stacks.length === 1) refused(stacks, error)
    else for (const one of stacks) await report([one], null, signal)
    return true
  }

  function restMs(): number {
    return deps.outbox.isEmpty ? Math.max(deps.everyMs, checkDueMs - deps.clock.monotonicMs()) : deps.everyMs
  }

  function refused(stacks: readonly StackReport[], error: unknown): void {
    for (const { stack_id, phase } of stacks) deps.log.warn('report refused', { stack_id, phase, why: errorText(error) })
  }

  function compared(result: 'match' | 'moved' | 'mismatch' | undefined): void {
    if (result === 'moved') return
    checkDueMs = deps.clock.monotonicMs() + jittered(deps.digestMs, 0.2)
    if (result !== 'mismatch') return
    deps.log.warn('what we hold is not what the broker holds; asking for a complete list')
    deps.follow.restart('digest')
  }

  return {
    name: 'status',
    everyMs: () => (failures === 0 ? restMs() : backoffDelayMs({ baseMs: deps.everyMs, maxMs: awayMaxMs, jitter: 'equal' }, failures)),
    pauseMs: () => {
      const apartMs = lastRows >= busyRows || failures > 0 ? deps.everyMs : deps.everyMs / 10
      return Math.max(0, sentAtMs + apartMs - deps.clock.monotonicMs())
    },
    begin: (session) => {
      place = { session, n: 0 }
      // A session is what a broker of this version has.
      servedFromMs = Number.NEGATIVE_INFINITY
    },
    run: async (signal) => {
      try {
        const events = await sendEvents(deps, signal)
        const rows = await sendRows(signal)
        failures = 0
        return { events, rows }
      } catch (error) {
        signal.throwIfAborted()
        if (failures++ === 0) deps.log.warn('reports wait: the broker does not take them', { why: errorText(error) })
        return {}
      }
    },
  }
}
