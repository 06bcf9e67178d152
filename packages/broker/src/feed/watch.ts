// Watches: pages and automation follow pointers ("this changed, read it again"), as server-sent events. They hold no
// content, so permission is checked where the content is read.
import type { ServerResponse } from 'node:http'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { ChangeRow } from '../store/change-log.ts'
import type { FeedView } from './reader.ts'

export interface Watches {
  /** `kinds`: object kinds to be told about. The first event says that everything must be read once. */
  open(response: ServerResponse, kinds: ReadonlySet<string>): void
  readonly offer: (row: ChangeRow) => void
  tick(pingMs: number): void
  closeAll(): void
}
interface Watch {
  readonly response: ServerResponse
  readonly kinds: ReadonlySet<string>
  lastWriteMs: number
}
/** A page that stopped reading is let go; it reads everything again when it returns. */
const bufferBytesMax = 64 * 1024

export function createWatches(clock: Clock, view: () => FeedView | null): Watches {
  const watches = new Set<Watch>()
  const write = (watch: Watch, event: string, data: unknown) => {
    watch.lastWriteMs = clock.monotonicMs()
    watch.response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`)
    if (watch.response.writableLength > bufferBytesMax) watch.response.destroy()
  }
  return {
    open: (response, kinds) => {
      const watch: Watch = { response, kinds, lastWriteMs: clock.monotonicMs() }
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
    tick: (pingMs) => {
      for (const watch of watches) if (clock.monotonicMs() - watch.lastWriteMs >= pingMs) write(watch, 'ping', { t: clock.now() })
    },
    closeAll: () => {
      for (const { response } of watches) response.end()
      watches.clear()
    },
  }
}
