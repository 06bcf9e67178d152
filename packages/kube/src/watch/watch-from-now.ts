// Follows changes of a kind from now on without keeping objects: for kinds with many objects, such as Events. A watch that ends is resumed at
// its position. If that position has expired, following restarts from now, and changes in between are not reported.
import { type BackoffPolicy, backoffDelayMs, randomBetween } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Kube, Selection, WatchEvent } from '../client/kube.ts'
import { hasReason } from '../client/kube-error.ts'
import type { Kind } from '../client/object.ts'

export interface TailDeps {
  readonly kube: Kube
  readonly clock: Clock
  readonly log: Log
}
export interface TailOptions extends Selection {
  readonly kind: Kind
  readonly onEvent: (event: WatchEvent) => void
}
const backoff: BackoffPolicy = { baseMs: 500, maxMs: 30_000, jitter: 'equal' }
const healthyMs = 5_000
const idleMs = 90_000

export function startTail(deps: TailDeps, options: TailOptions): { stop(): Promise<void> } {
  const stopping = new AbortController()
  const running = run(deps, options, stopping.signal)
  return {
    stop: async () => {
      stopping.abort(new Error(`the tail of ${options.kind.kind} was stopped`))
      await running
    },
  }
}

async function run(deps: TailDeps, options: TailOptions, signal: AbortSignal): Promise<void> {
  const at: Position = { version: null }
  for (let failures = 0; !signal.aborted; ) {
    const startedMs = deps.clock.monotonicMs()
    try {
      await follow(deps, options, at, signal)
    } catch (error) {
      if (signal.aborted) return
      if (hasReason(error, 'Expired', 'Gone')) at.version = null
      deps.log.debug('tail interrupted', { kind: options.kind.kind, error: String(error), failures })
    }
    failures = deps.clock.monotonicMs() - startedMs >= healthyMs ? 0 : failures + 1
    if (failures > 0) await deps.clock.sleep(backoffDelayMs(backoff, failures), signal).catch(() => undefined)
  }
}

interface Position {
  /** Null means from now on. */
  version: string | null
}

async function follow({ kube }: TailDeps, { kind, onEvent, ...selection }: TailOptions, at: Position, signal: AbortSignal): Promise<void> {
  at.version ??= await readVersion(kube, kind, selection, signal)
  const onEvents = (events: WatchEvent[]) => {
    for (const event of events) {
      at.version = event.object.metadata.resourceVersion ?? at.version
      if (event.type !== 'BOOKMARK') onEvent(event)
    }
  }
  const serverTimeoutMs = randomBetween(300_000, 600_000)
  const options = { ...selection, resourceVersion: at.version, idleMs, serverTimeoutMs, onEvents, signal }
  for await (const _event of kube.watch(kind, options));
}

/** Reads the current version without reading the objects. */
async function readVersion(kube: Kube, kind: Kind, selection: Selection, signal: AbortSignal): Promise<string> {
  for await (const { resourceVersion } of kube.pages(kind, { ...selection, metadataOnly: true, pageSize: 1, signal }))
    return resourceVersion
  return ''
}
