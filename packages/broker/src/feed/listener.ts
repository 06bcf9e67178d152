// The wake-up: one LISTEN connection per process, and one NOTIFY in flight per process after commits. A lost wake-up only
// costs the slow poll; a silent listener is found by a test of its own and replaced.
import { backoffDelayMs } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type pg from 'pg'
import * as changeLog from '../store/change-log.ts'
import type { Sql } from '../store/sql.ts'

export interface Listener {
  readonly isUp: boolean
  stop(): Promise<void>
}
export interface ListenerDeps {
  readonly connect: () => Promise<pg.Client>
  readonly sql: Sql
  readonly clock: Clock
  readonly log: Log
  readonly channel: string
  readonly processId: string
  readonly onWake: () => void
  /** Whatever came, by whoever sent it. */
  readonly onHeard: (payload: string) => void
  /** Every how long the listener is tested, and how long the test may take. */
  readonly testEveryMs: number
  readonly testLimitMs: number
}

export function startListener(deps: ListenerDeps): Listener {
  const stopping = new AbortController()
  let isUp = false
  const done = (async () => {
    for (let failures = 0; !stopping.signal.aborted; ) {
      try {
        await listenUntilLost(deps, stopping.signal, (up) => {
          isUp = up
          if (up) failures = 0
        })
      } catch (error) {
        if (failures === 0) deps.log.warn('feed listener lost', { error: error as Error })
      }
      isUp = false
      failures += 1
      await deps.clock
        .sleep(backoffDelayMs({ baseMs: 250, maxMs: 15_000, jitter: 'equal' }, failures), stopping.signal)
        .catch(() => undefined)
    }
  })()
  return {
    get isUp() {
      return isUp
    },
    stop: async () => {
      stopping.abort()
      await done
    },
  }
}

async function listenUntilLost(deps: ListenerDeps, signal: AbortSignal, setUp: (isUp: boolean) => void): Promise<void> {
  const client = await deps.connect()
  const lost = new AbortController()
  let heard: () => void = () => undefined
  client.on('error', () => lost.abort())
  client.on('end', () => lost.abort())
  client.on('notification', ({ payload }) => {
    // Of the payload only the sender matters: what this process committed has woken it already.
    if (payload === deps.processId) heard()
    else deps.onWake()
    deps.onHeard(payload ?? '')
  })
  const over = AbortSignal.any([signal, lost.signal])
  try {
    await client.query(`listen ${client.escapeIdentifier(deps.channel)}`)
    deps.onWake() // whatever was committed while nobody listened
    while (!over.aborted) {
      const answered = new Promise<boolean>((resolve) => (heard = () => resolve(true)))
      await changeLog.notify(deps.sql, { channel: deps.channel, payload: deps.processId })
      const isAlive = await Promise.race([answered, deps.clock.sleep(deps.testLimitMs, over).then(() => false)])
      if (!isAlive) throw new Error(`the listener did not hear its own test within ${deps.testLimitMs} ms`)
      setUp(true) // not before: a connection that is there may still hear nothing
      await deps.clock.sleep(deps.testEveryMs, over)
    }
  } catch (error) {
    if (!over.aborted) throw error
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** Between two NOTIFYs of one process. The first after a rest leaves at once; under load each is a transaction of its own for all
 *  that was committed meanwhile, and no other process looks much more often. */
export const notifyRestMs = 4

/** wakeFeed: at most one NOTIFY in flight per process; calls meanwhile share the next one; none if nobody else is there. */
export function createWaker(
  deps: Pick<ListenerDeps, 'sql' | 'clock' | 'log' | 'channel' | 'processId'> & {
    readonly onWake: (stackId?: string) => void
    /** Nobody else would hear it. */
    readonly isAlone: () => boolean
  },
): (stackId?: string) => void {
  let state: 'idle' | 'sending' | 'again' = 'idle'
  const send = async (): Promise<void> => {
    state = 'sending'
    try {
      await changeLog.notify(deps.sql, { channel: deps.channel, payload: deps.processId })
    } catch (error) {
      deps.log.debug('feed notify failed; the poll finds it', { error: error as Error })
    }
    await deps.clock.sleep(notifyRestMs)
    const again = (state as string) === 'again'
    state = 'idle'
    if (again) await send()
  }
  return (stackId) => {
    deps.onWake(stackId)
    if (deps.isAlone()) return
    if (state === 'idle') void send()
    else state = 'again'
  }
}
