// Watches: pages and automation follow pointers ("this changed, read it again"), as server-sent events. They hold no
// content, so permission is checked where the content is read.
import type { ServerResponse } from 'node:http'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { ChangeRow } from '../store/change-log.ts'
import type { FeedView } from './reader.ts'

export interface WatchWish {
  /** Object kinds to be told about. */
  readonly kinds: ReadonlySet<string>
  /** Credentials it rests on, as `kind id`: when one of them dies, so does the watch. */
  readonly rests: readonly string[]
  readonly expiresAtMs: number | null
}
export interface Watches {
  /** The first event says that everything must be read once. */
  open(response: ServerResponse, wish: WatchWish): void
  readonly offer: (row: ChangeRow) => void
  /** A credential changed or died: whoever still may opens another one. */
  closeOf(credential: string): void
  tick(pingMs: number): void
  closeAll(): void
}
interface Watch extends WatchWish {
  readonly response: ServerResponse
  lastWriteMs: number
}
/** A page that stopped reading is let go; it reads everything again when it returns. */
const bufferBytesMax = 64 * 1024
const perSessionMax = 20

export function createWatches(clock: Clock, view: () => FeedView | null): Watches {
  const watches = new Set<Watch>()
  const write = (watch: Watch, event: string, data: unknown) => {
    watch.lastWriteMs = clock.monotonicMs()
    watch.response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
    if (watch.response.writableLength > bufferBytesMax) watch.response.destroy()
  }
  const end = (watch: Watch, reason: string) => {
    watches.delete(watch)
    write(watch, 'bye', { reason })
    watch.response.end()
    // A peer that does not read must not keep a socket whose credential is dead.
    if (reason === 'revoked') watch.response.socket?.destroySoon()
  }
  /** Pages left open in many tabs: the oldest gives way. */
  const closeOldest = ({ rests }: WatchWish) => {
    const session = rests.find((credential) => credential.startsWith('session '))
    const open = session === undefined ? [] : [...watches].filter((watch) => watch.rests.includes(session))
    if (open.length >= perSessionMax) end(open[0]!, 'overloaded')
  }
  return {
    open: (response, wish) => {
      closeOldest(wish)
      const watch: Watch = { ...wish, response, lastWriteMs: clock.monotonicMs() }
      response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store, no-transform', 'x-accel-buffering': 'no' })
      response.on('close', () => watches.delete(watch))
      response.on('error', () => watches.delete(watch))
      watches.add(watch)
      write(watch, 'hello', { protocol: 1, epoch: view()?.epoch ?? null, mode: 'reset', time: new Date(clock.now()).toISOString() })
    },
    offer: (row) => {
      for (const watch of watches) {
        if (watch.kinds.has(row.object_kind))
          write(watch, 'change', { scope: `${row.scope_kind}:${row.scope_id}`, kind: row.object_kind, id: row.object_id, op: row.op })
      }
    },
    closeOf: (credential) => {
      for (const watch of watches) if (watch.rests.includes(credential)) end(watch, 'revoked')
    },
    tick: (pingMs) => {
      for (const watch of watches) {
        if (watch.expiresAtMs !== null && clock.now() >= watch.expiresAtMs) end(watch, 'revoked')
        else if (clock.monotonicMs() - watch.lastWriteMs >= pingMs) write(watch, 'ping', { t: clock.now() })
      }
    },
    closeAll: () => {
      for (const watch of watches) end(watch, 'drain')
    },
  }
}
