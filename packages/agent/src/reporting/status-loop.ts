// Sends status rows and events: at once after an attempt, else within a second; without news it sleeps until the next digest comparison.
// Unsent reports are kept; only reports that the broker refuses permanently are dropped and counted.
import type { Client } from '@brokkr/contract/client.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { StackReport } from '@brokkr/contract/feed/stream.ts'
import type { AgentId } from '@brokkr/contract/wire.ts'
import { addJitter, backoffDelayMs } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import type { BrokerSync } from '../connection/broker-sync.ts'
import type { AgentMetrics } from '../metrics.ts'
import type { Outbox } from './outbox.ts'
import { isContentRefused, isNotServed, isTooLarge, sendEvents } from './send-events.ts'

export interface StatusDeps {
  readonly client: Client
  readonly agentId: AgentId
  readonly outbox: Outbox
  readonly sync: Pick<BrokerSync, 'summary' | 'restart'>
  readonly clock: Clock
  readonly log: Log
  readonly metrics: AgentMetrics
  readonly everyMs: number
  readonly digestMs: number
}
export interface StatusLoop extends Loop {
  /** Pause before urgent reports are sent; a busy agent sends its rows in batches. */
  pauseMs(): number
  /** Reports are numbered within the broker's session. */
  begin(session: number): void
}
const rowsMax = 200
const busyRows = 10
const awayMaxMs = 30_000
/** Pause after a broker without this operation. */
const unservedMs = 60_000

export function statusLoop(deps: StatusDeps): StatusLoop {
  // Without a session, while polling, the clock orders reports, also across restarts.
  let place = { session: 0, n: deps.clock.now() }
  let failures = 0
  let sentAtMs = Number.NEGATIVE_INFINITY
  let lastRows = 0
  let servedFromMs = Number.NEGATIVE_INFINITY
  let checkDueMs = deps.clock.monotonicMs() + addJitter(deps.digestMs, 0.2)

  async function sendRows(signal: AbortSignal): Promise<number> {
    let sent = 0
    for (let round = 0; ; round++) {
      const stacks = deps.outbox.nextRows(rowsMax)
      const check = round === 0 && deps.clock.monotonicMs() >= checkDueMs ? deps.sync.summary() : null
      // A v1 broker has no such operation; the rows wait for a newer broker.
      if ((stacks.length === 0 && check === null) || deps.clock.monotonicMs() < servedFromMs) return sent
      if (!(await report(stacks, check, signal))) return sent
      lastRows = stacks.length
      sentAtMs = deps.clock.monotonicMs()
      deps.outbox.rowsDone(stacks)
      sent += stacks.length
    }
  }

  /** Returns false if the rows were not accepted and must be kept. */
  async function report(stacks: readonly StackReport[], check: ReturnType<BrokerSync['summary']>, signal: AbortSignal): Promise<boolean> {
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

  /** Bisects rows that the broker refuses permanently. */
  async function differently(
    stacks: readonly StackReport[],
    check: ReturnType<BrokerSync['summary']>,
    error: unknown,
    signal: AbortSignal,
  ): Promise<boolean> {
    if (!isContentRefused(error) && !(isTooLarge(error) && stacks.length > 1)) throw error
    if (check !== null) {
      checkDueMs = deps.clock.monotonicMs() + addJitter(deps.digestMs, 0.2)
      if (error instanceof ApiError && error.code === 'bad_cursor') deps.sync.restart('bad_cursor')
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
    for (const { stack_id, phase } of stacks) deps.log.warn('status report refused', { stack_id, phase, why: errorText(error) })
  }

  function compared(result: 'match' | 'moved' | 'mismatch' | undefined): void {
    if (result === 'moved') return
    checkDueMs = deps.clock.monotonicMs() + addJitter(deps.digestMs, 0.2)
    if (result !== 'mismatch') return
    deps.log.warn('digest mismatch, snapshot requested')
    deps.sync.restart('digest')
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
      // Only a broker of this version has sessions.
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
        if (failures++ === 0) deps.log.warn('status report failed', { why: errorText(error) })
        return {}
      }
    },
  }
}
