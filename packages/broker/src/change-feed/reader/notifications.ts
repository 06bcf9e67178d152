// LISTEN and NOTIFY of one broker process. `wake` wakes the local reader and, while other brokers listen, their readers too.

import type { PipelinedClient, Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { createListener, createWaker } from './listener.ts'
import { createPeerBrokers } from './peer-brokers.ts'

export interface NotificationsDeps {
  readonly connect: () => Promise<PipelinedClient>
  readonly sql: Sql
  readonly clock: Clock
  readonly log: Log
  readonly wakeReader: (stackId?: string) => void
}
export interface NotificationsOptions {
  readonly channel: string
  readonly processId: string
  /** Interval of the listener's self-test, and its timeout. */
  readonly testEveryMs: number
  readonly testLimitMs: number
}
export interface Notifications {
  /** Call after a commit, with the stack if the commit changed one. */
  readonly wake: (stackId?: string) => void
  readonly isListening: boolean
  start(): void
  stop(): Promise<void>
}

export function createNotifications(deps: NotificationsDeps, options: NotificationsOptions): Notifications {
  const { wakeReader, ...rest } = deps
  const peers = createPeerBrokers({ clock: deps.clock, processId: options.processId, testEveryMs: options.testEveryMs })
  const listener = createListener(rest, options)
  const wake = createWaker({ ...deps, hasNoPeers: () => peers.hasNoPeers(listener.isUp) }, options)
  const onPayload = (payload: string) => {
    // A new peer missed earlier wake-ups, because this broker does not send NOTIFY without peers.
    if (peers.recordNotification(payload)) wake()
  }
  return {
    wake,
    get isListening() {
      return listener.isUp
    },
    start: () => listener.start({ onWake: wakeReader, onPayload }),
    stop: () => listener.stop(),
  }
}
