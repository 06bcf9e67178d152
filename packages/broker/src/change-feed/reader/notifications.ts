// LISTEN and NOTIFY of one broker process. `wake` wakes the local reader and, while other brokers listen, their readers too.
import type { PipelinedClient, Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { createListener, createWaker } from './listener.ts'

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

// Knows whether other broker processes listen on the channel. Every NOTIFY carries the id of its sender, including the periodic
// self-test of each listener, so a listening peer is heard within one test interval. Without peers no NOTIFY is needed.

export interface PeerBrokers {
  /** Returns true if the payload comes from a peer and no peer was heard recently. */
  recordNotification(payload: string): boolean
  /** True only while LISTEN is connected and no other broker was heard recently. */
  hasNoPeers(isListening: boolean): boolean
}
export interface PeerBrokersDeps {
  readonly clock: Clock
  readonly processId: string
  /** Interval of the listener self-test of each broker. */
  readonly testEveryMs: number
}

/** Remembering a stopped peer costs only a few unneeded notifications. */
const rememberedMinMs = 600_000

export function createPeerBrokers({ clock, processId, testEveryMs }: PeerBrokersDeps): PeerBrokers {
  const rememberedMs = Math.max(rememberedMinMs, 4 * testEveryMs)
  let heardAtMs = Number.NEGATIVE_INFINITY
  const hasRecentPeer = () => clock.monotonicMs() - heardAtMs < rememberedMs
  return {
    recordNotification: (payload) => {
      // Commands beside the broker (`brokkr broker create …`) send an empty payload: they notify but do not listen.
      if (payload === '' || payload === processId) return false
      const isNew = !hasRecentPeer()
      heardAtMs = clock.monotonicMs()
      return isNew
    },
    hasNoPeers: (isListening) => isListening && !hasRecentPeer(),
  }
}
