// Knows whether other broker processes listen on the channel. Every NOTIFY carries the id of its sender, including the periodic
// self-test of each listener, so a listening peer is heard within one test interval. Without peers no NOTIFY is needed.
import type { Clock } from '@brokkr/runtime/clock.ts'

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
