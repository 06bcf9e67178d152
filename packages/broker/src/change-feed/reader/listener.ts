// One LISTEN connection per broker process, and at most one NOTIFY in flight per process after commits. A lost notification costs one
// poll interval; the listener tests itself with its own NOTIFY and reconnects if the test does not arrive.

import { type PipelinedClient, type Sql, toSql } from '@brokkr/postgres'
import { backoffDelayMs } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import * as changeLog from '../store/change-log.ts'

export interface ListenerDeps {
  readonly connect: () => Promise<PipelinedClient>
  readonly sql: Sql
  readonly clock: Clock
  readonly log: Log
}
export interface ListenerOptions {
  readonly channel: string
  readonly processId: string
  /** Interval of the self-test, and its timeout. */
  readonly testEveryMs: number
  readonly testLimitMs: number
}
export interface ListenerEvents {
  /** Another process committed, or commits may have been missed. */
  readonly onWake: () => void
  /** Every notification, with the process id of its sender as payload. */
  readonly onPayload: (payload: string) => void
}
export interface Listener {
  readonly isUp: boolean
  start(events: ListenerEvents): void
  stop(): Promise<void>
}

export function createListener(deps: ListenerDeps, options: ListenerOptions): Listener {
  const stopping = new AbortController()
  let isUp = false
  let running: Promise<void> | null = null
  const run = async (events: ListenerEvents): Promise<void> => {
    for (let failures = 0; !stopping.signal.aborted; ) {
      try {
        await listenUntilLost(deps, { ...options, ...events }, stopping.signal, (up) => {
          isUp = up
          if (up) failures = 0
        })
      } catch (error) {
        if (failures === 0) deps.log.warn('feed listener lost', { error: error as Error })
      }
      isUp = false
      failures += 1
      const delayMs = backoffDelayMs({ baseMs: 250, maxMs: 15_000, jitter: 'equal' }, failures)
      await deps.clock.sleep(delayMs, stopping.signal).catch(() => undefined)
    }
  }
  return {
    get isUp() {
      return isUp
    },
    start: (events) => {
      running = run(events)
    },
    stop: async () => {
      stopping.abort()
      await running
    },
  }
}

async function listenUntilLost(
  deps: ListenerDeps,
  options: ListenerOptions & ListenerEvents,
  signal: AbortSignal,
  setUp: (isUp: boolean) => void,
): Promise<void> {
  const client = await deps.connect()
  const session = toSql(client)
  const lost = new AbortController()
  let onSelfTest: () => void = () => undefined
  client.on('error', () => lost.abort())
  client.on('end', () => lost.abort())
  client.on('notification', ({ payload }) => {
    // Commits of this process have woken its reader already.
    if (payload === options.processId) onSelfTest()
    else options.onWake()
    options.onPayload(payload ?? '')
  })
  const ended = AbortSignal.any([signal, lost.signal])
  // A half-open connection answers neither a query nor the end of the session.
  ended.addEventListener('abort', () => client.destroy())
  if (ended.aborted) client.destroy()
  try {
    await client.query(`listen ${client.escapeIdentifier(options.channel)}`)
    options.onWake() // commits before LISTEN sent no notification to this process
    while (!ended.aborted) {
      const selfTest = new Promise<boolean>((resolve) => (onSelfTest = () => resolve(true)))
      // On this connection: one of the pool may be busy with other work for longer than the test may take.
      const sent = changeLog.notify(session, { channel: options.channel, payload: options.processId }).then(() => selfTest)
      sent.catch(() => undefined)
      const isAlive = await Promise.race([sent, deps.clock.sleep(options.testLimitMs, ended).then(() => false)])
      if (!isAlive) throw new Error(`the listener did not receive its own notification within ${options.testLimitMs} ms`)
      setUp(true) // only now: an open connection may still deliver no notifications
      await deps.clock.sleep(options.testEveryMs, ended)
    }
  } catch (error) {
    if (!ended.aborted) throw error
  } finally {
    setUp(false)
    client.destroy()
  }
}

/** Pause between two NOTIFYs of one process. The first NOTIFY is sent at once; under load each one covers all commits of the pause. */
export const notifyRestMs = 4

/** Returns `wakeFeed`: wakes the local reader and sends NOTIFY. At most one NOTIFY is in flight per process; calls meanwhile share the
 *  next one. Sends none while no other broker listens. */
export function createWaker(
  deps: Omit<ListenerDeps, 'connect'> & {
    readonly wakeReader: (stackId?: string) => void
    readonly hasNoPeers: () => boolean
  },
  { channel, processId }: Pick<ListenerOptions, 'channel' | 'processId'>,
): (stackId?: string) => void {
  let state: 'idle' | 'sending' | 'again' = 'idle'
  const send = async (): Promise<void> => {
    state = 'sending'
    try {
      await changeLog.notify(deps.sql, { channel, payload: processId })
    } catch (error) {
      deps.log.debug('feed notify failed', { error: error as Error })
    }
    await deps.clock.sleep(notifyRestMs)
    const again = (state as string) === 'again'
    state = 'idle'
    if (again) await send()
  }
  return (stackId) => {
    deps.wakeReader(stackId)
    if (deps.hasNoPeers()) return
    if (state === 'idle') void send()
    else state = 'again'
  }
}
