// The live feed: one event stream for the whole page. Pointers of changed resources mark reads as outdated, at most twice a second. After an
// interruption the stream resumes at the last cursor; if the broker cannot resume, everything is read again once.
import type { Query, QueryClient } from '@tanstack/react-query'
import { type Change, isAffected } from './invalidate.ts'

export type FeedState = 'connecting' | 'live' | 'stale'
export interface Feed {
  readonly state: FeedState
  /** Time of the last frame of the broker; null before the first. */
  readonly heardAtMs: number | null
  /** Name of the broker process that serves the stream. */
  readonly broker: string | null
}

const flushMs = 500
const reopenMinMs = 1_000
const reopenMaxMs = 10_000
const failuresWithCursorMax = 5
/** Without any frame for this long the stream counts as interrupted; the broker sends a ping every 15 s. */
const silentMs = 40_000

const largeReads: ReadonlySet<unknown> = new Set(['listFleet', 'listStacks', 'getOverview'])
const largePauseMs = 2_000

/** Least time between two reads because of changes: a storm of changes must not read large lists twice a second. */
function pauseMs({ queryKey, state }: Pick<Query, 'queryKey' | 'state'>): number {
  const pages = (state.data as { pages?: readonly unknown[] } | undefined)?.pages?.length ?? 1
  return largeReads.has(queryKey[0]) || pages > 1 ? largePauseMs * pages : 0
}

export interface LiveFeed {
  readonly start: () => void
  readonly stop: () => void
  readonly subscribe: (listener: () => void) => () => void
  readonly read: () => Feed
}

export interface FeedOptions {
  /** What to watch; read at each start of the stream. */
  readonly scopes: () => readonly string[]
  readonly onClosed: () => void
}

export function createLiveFeed(queries: QueryClient, { scopes, onClosed }: FeedOptions): LiveFeed {
  const listeners = new Set<() => void>()
  const pending = new Map<string, Change>()
  /** Hashes of shown reads that a change affected. */
  const outdated = new Set<string>()
  let feed: Feed = { state: 'connecting', heardAtMs: null, broker: null }
  let source: EventSource | null = null
  let cursor: string | null = null
  let reopenMs = reopenMinMs
  let failures = 0
  let timers: ReturnType<typeof setTimeout>[] = []

  const set = (change: Partial<Feed>) => {
    feed = { ...feed, ...change }
    for (const listener of listeners) listener()
  }
  const open = () => {
    const query = new URLSearchParams(scopes().map((scope) => ['scope', scope]))
    if (cursor !== null) query.set('cursor', cursor)
    source = new EventSource(`/api/v1/watch?${query.toString()}`)
    source.addEventListener('hello', (event) => {
      const { mode, broker } = JSON.parse(event.data as string) as { mode: string; broker: string }
      reopenMs = reopenMinMs
      failures = 0
      set({ state: 'live', heardAtMs: Date.now(), broker })
      if (mode === 'reset') void queries.invalidateQueries()
    })
    source.addEventListener('bookmark', (event) => {
      cursor = event.lastEventId
      set({ heardAtMs: Date.now() })
    })
    source.addEventListener('ping', (event) => {
      const { stale } = JSON.parse(event.data as string) as { stale: boolean }
      set({ state: stale ? 'stale' : 'live', heardAtMs: Date.now() })
    })
    source.addEventListener('change', (event) => {
      const change = JSON.parse(event.data as string) as Change
      pending.set(`${change.scope} ${change.kind} ${change.id}`, change)
      set({ heardAtMs: Date.now() })
    })
    // The broker ends each stream after its lifetime; that is no interruption.
    source.addEventListener('bye', (event) => {
      const { retry_after_ms } = JSON.parse(event.data as string) as { retry_after_ms: number }
      source?.close()
      source = null
      timers.push(setTimeout(open, retry_after_ms))
    })
    source.addEventListener('error', reopen)
  }
  const reopen = () => {
    if (source === null) return
    source.close()
    source = null
    set({ state: 'stale' })
    onClosed()
    failures += 1
    // A cursor that the broker refuses would fail for ever; without one, everything is read again.
    if (failures >= failuresWithCursorMax) cursor = null
    timers.push(setTimeout(open, reopenMs))
    reopenMs = Math.min(reopenMaxMs, reopenMs * 2)
  }
  const flush = () => {
    if (feed.state === 'live' && feed.heardAtMs !== null && Date.now() - feed.heardAtMs > silentMs) reopen()
    if (document.hidden) return
    const changes = [...pending.values()]
    pending.clear()
    if (changes.length > 0)
      void queries.invalidateQueries({
        refetchType: 'none',
        predicate: (query) => {
          if (!changes.some((change) => isAffected(query.queryKey, change))) return false
          if (query.isActive()) outdated.add(query.queryHash)
          return !query.isActive()
        },
      })
    for (const hash of outdated) {
      const query = queries.getQueryCache().get(hash)
      // A read in progress may have missed the change: it is read again when it has ended.
      if (query?.isActive() === true && (query.state.fetchStatus === 'fetching' || Date.now() - query.state.dataUpdatedAt < pauseMs(query)))
        continue
      outdated.delete(hash)
      if (query?.isActive() === true) void queries.invalidateQueries({ queryKey: query.queryKey, exact: true })
    }
  }
  return {
    start: () => {
      if (source !== null) return
      open()
      timers.push(setInterval(flush, flushMs))
    },
    stop: () => {
      source?.close()
      source = null
      for (const timer of timers) clearTimeout(timer)
      timers = []
      set({ state: 'connecting', heardAtMs: null })
    },
    subscribe: (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    read: () => feed,
  }
}
