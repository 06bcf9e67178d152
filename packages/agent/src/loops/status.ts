// Tells the broker how the stacks stand and what happened: at once when something ends, else once a second. Whatever could not
// be told stays and is told later; only what the broker refuses for good is given up.
import type { Client } from '@brokkr/contract/client.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import type { AgentId } from '@brokkr/contract/wire.ts'
import { backoffDelayMs, jittered } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import type { Follow } from '../follow.ts'
import type { AgentMetrics } from '../metrics.ts'
import type { Outbox } from '../reconcile/outbox.ts'

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
const eventsMax = 200
const busyRows = 10
const awayMaxMs = 30_000

export function statusLoop(deps: StatusDeps): StatusLoop {
  // Without a session, as when polling, the clock makes later reports the newer ones, also across restarts.
  let place = { session: 0, n: deps.clock.now() }
  let failures = 0
  let sentAtMs = Number.NEGATIVE_INFINITY
  let lastRows = 0
  let checkDueMs = deps.clock.monotonicMs() + jittered(deps.digestMs, 0.2)

  async function sendEvents(signal: AbortSignal): Promise<number> {
    let sent = 0
    for (let event = deps.outbox.nextEvent(); event && sent < eventsMax; event = deps.outbox.nextEvent()) {
      try {
        await deps.client.createEvent({ params: { id: deps.agentId }, body: event }, { signal })
      } catch (error) {
        if (!isRefusedForGood(error)) throw error
        deps.log.warn('event refused', { event: event.event_type, object_id: event.deployment_object_id, why: errorText(error) })
        deps.metrics.eventsLost.inc({ reason: 'refused' })
      }
      deps.outbox.eventDone(event)
      sent++
    }
    return sent
  }

  async function sendRows(signal: AbortSignal): Promise<number> {
    let sent = 0
    for (let round = 0; ; round++) {
      const stacks = deps.outbox.nextRows(rowsMax)
      const check = round === 0 && deps.clock.monotonicMs() >= checkDueMs ? deps.follow.summary() : null
      if (stacks.length === 0 && check === null) return sent
      place.n++
      const body = { ...place, stacks, ...(check === null ? {} : { received_cursor: check.cursor, check }) }
      const answer = await deps.client.reportStatus({ params: { id: deps.agentId }, body }, { signal })
      deps.outbox.rowsDone(stacks)
      sent += stacks.length
      lastRows = stacks.length
      sentAtMs = deps.clock.monotonicMs()
      if (check !== null) onChecked(answer.check)
    }
  }

  function onChecked(result: 'match' | 'moved' | 'mismatch' | undefined): void {
    // "Moved" is neither right nor wrong: asked again with the next report.
    if (result === 'moved') return
    checkDueMs = deps.clock.monotonicMs() + jittered(deps.digestMs, 0.2)
    if (result !== 'mismatch') return
    deps.log.warn('the broker holds another set of stacks than we do; asking for a complete list')
    deps.follow.restart()
  }

  return {
    name: 'status',
    everyMs: () => (failures === 0 ? deps.everyMs : backoffDelayMs({ baseMs: deps.everyMs, maxMs: awayMaxMs, jitter: 'equal' }, failures)),
    pauseMs: () => {
      const apartMs = lastRows >= busyRows || failures > 0 ? deps.everyMs : deps.everyMs / 10
      return Math.max(0, sentAtMs + apartMs - deps.clock.monotonicMs())
    },
    begin: (session) => {
      place = { session, n: 0 }
    },
    run: async (signal) => {
      try {
        const events = await sendEvents(signal)
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

/** The same event would be refused again; a key that is refused may be renewed. */
const isRefusedForGood = (error: unknown): boolean =>
  error instanceof ApiError && error.status >= 400 && error.status < 500 && ![401, 408, 425, 429].includes(error.status)
