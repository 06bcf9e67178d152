// Messages between the broker processes of one schema, by NOTIFY: new telemetry, and sockets that agents opened. A lost message costs live
// readers some lines, which is announced to them as a gap; nothing that must last travels here.

import type { LogGap } from '@brokkr/contract/telemetry/telemetry.ts'
import type { Database } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { createListener } from '../change-feed/reader/listener.ts'
import { toNotifyChannel } from '../change-feed/rules.ts'
import * as changeLog from '../change-feed/store/change-log.ts'
import type { StoredRows } from '../telemetry/actions.ts'

export type BusMessage =
  | { readonly is: 'telemetry'; readonly rows: StoredRows /** Null: many. */; readonly stackIds: readonly string[] | null }
  | { readonly is: 'gaps'; readonly gaps: readonly LogGap[] }
  | { readonly is: 'socket'; readonly agentId: string; readonly session: number }
  | { readonly is: 'closed'; readonly agentId: string }

export interface Bus {
  publish(message: BusMessage): void
  start(events: { readonly onMessage: (message: BusMessage) => void; readonly onInterrupted: () => void }): void
  stop(): Promise<void>
}
export interface BusDeps {
  readonly sql: Database
  readonly clock: Clock
  readonly log: Log
}

/** NOTIFY carries less than 8,000 bytes. */
const payloadBytesMax = 7_900

export function createBus(deps: BusDeps, options: { schema: string; processId: string; testEveryMs: number; testLimitMs: number }): Bus {
  const { processId } = options
  // Schema names are at most 63 characters of [A-Za-z0-9_]; the prefix keeps the two channels apart.
  const channel = `live_${toNotifyChannel(options.schema)}`.slice(0, 63)
  const listener = createListener({ ...deps, connect: deps.sql.connect }, { ...options, channel })
  return {
    publish: (message) => {
      const payload = JSON.stringify({ from: processId, message })
      if (Buffer.byteLength(payload) > payloadBytesMax) return
      changeLog.notify(deps.sql, { channel, payload }).catch((error: unknown) => {
        deps.log.debug('live notify failed', { error: error as Error })
      })
    },
    start: ({ onMessage, onInterrupted }) => {
      let isFirst = true
      let isWake = false
      listener.start({
        // Called before each foreign message, and alone after every connect.
        onWake: () => {
          isWake = true
          queueMicrotask(() => {
            if (!isWake) return
            isWake = false
            if (!isFirst) onInterrupted()
            isFirst = false
          })
        },
        onPayload: (payload) => {
          isWake = false
          const message = parseMessage(payload, processId)
          if (message !== null) onMessage(message)
        },
      })
    },
    stop: () => listener.stop(),
  }
}

/** Null for messages of this process and for self-tests. */
function parseMessage(payload: string, processId: string): BusMessage | null {
  if (!payload.startsWith('{')) return null
  try {
    const { from, message } = JSON.parse(payload) as { from: string; message: BusMessage }
    return from === processId ? null : message
  } catch {
    return null
  }
}
