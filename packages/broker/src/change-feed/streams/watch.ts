// Watches: clients such as the console receive pointers to changed resources and read those again. A pointer has no content, so
// permission is checked by the read. A watch resumes from the ring buffer, or is reset: then the client reads everything once.
import type { ServerResponse } from 'node:http'
import type { Sql } from '@brokkr/postgres'
import * as credentials from '../../auth/store/credentials.ts'
import * as stacks from '../../stacks/store/stacks.ts'
import { isCursorOfEpoch } from '../reader/cursor.ts'
import type { PublishedBatch } from '../reader/feed-events.ts'
import type { Publisher } from '../reader/publisher.ts'
import type { FeedView } from '../reader/reader.ts'
import { Registry, scopeKey } from '../reader/registry.ts'
import type { RingBuffer } from '../reader/ring-buffer.ts'
import type { WatchScope } from '../rules.ts'
import type { ChangeRow } from '../store/change-log.ts'
import { FrameStream } from './frame-stream.ts'
import type { StreamFormat } from './frame-writer.ts'
import { toWireFrame, type WireFrame } from './frames.ts'
import { type OpenStreamDeps, planLifetime, requireCursor } from './open-stream.ts'

export interface WatchRequest {
  readonly scopes: readonly WatchScope[]
  readonly cursor: string | undefined
  readonly format: StreamFormat
  /** Credentials it depends on, as `kind id`: the watch ends when one of them is revoked. */
  readonly credentialKeys: readonly string[]
  /** Expiry of its credential by the monotonic clock. */
  readonly endsAtMs: number | null
}
export interface WatchDeps extends Pick<OpenStreamDeps, 'clock' | 'metrics' | 'brokerName' | 'pingMs' | 'lifeMs' | 'limits'> {
  readonly sql: Sql
  readonly ring: RingBuffer
  readonly publisher: Pick<Publisher, 'nextBatch'>
}
export interface Watches {
  /** `getView` returns the last poll. */
  open(getView: () => FeedView, takeResponse: () => ServerResponse, request: WatchRequest): Promise<void>
  readonly offer: (row: ChangeRow) => void
  readonly flushBookmarks: (read: PublishedBatch) => void
  /** A client whose credential is still valid opens another watch. */
  closeByCredential(credential: string): void
  list(): Watch[]
}
/** A further watch of the same console session replaces its oldest one. */
const watchesPerSessionMax = 20

class Watch extends FrameStream {
  credentialKeys: readonly string[] = []
  /** Fingerprints of its credentials when it was opened. */
  fingerprints: Fingerprints = new Map()
}

export type Fingerprints = ReadonlyMap<string, string>

export async function readFingerprints(sql: Sql, keys: Iterable<string>): Promise<Fingerprints> {
  const ids = [...new Set(keys)].map((key) => key.slice(key.indexOf(' ') + 1))
  if (ids.length === 0) return new Map()
  const rows = await credentials.fingerprints(sql, { ids })
  return new Map(rows.map(({ credential, fingerprint }) => [credential, fingerprint]))
}

export function createWatches(deps: WatchDeps): Watches {
  const registry = new Registry<Watch>()
  const withoutBookmark = new Set<Watch>()
  const queueChange = (watch: Watch, row: ChangeRow) => {
    const change = buildChangeFrame(row)
    watch.queue(`${row.scope_kind} ${row.scope_id} ${row.object_kind} ${row.object_id}`, change)
    withoutBookmark.add(watch)
  }
  return {
    open: async (getView, takeResponse, request) => {
      const [scopes, fingerprints] = await Promise.all([
        expandScopes(deps, request.scopes),
        readFingerprints(deps.sql, request.credentialKeys),
      ])
      // One synchronous step from here on: rows published later find the watch.
      const view = getView()
      const missed = findMissedRows(deps, view, request, scopes)
      closeOldest(registry, request)
      const watch = openWatch(deps, registry, view, { takeResponse, request, missed })
      watch.fingerprints = fingerprints
      for (const scope of scopes) registry.subscribe(watch, scope)
      watch.state = 'live'
      for (const row of missed ?? []) queueChange(watch, row)
      watch.bookmark(view.cursorText, view.cursor)
    },
    offer: (row) => {
      const scope = scopeKey(row.scope_kind, row.scope_id)
      const subscribers = [...registry.getSubscribers(scope), ...registry.getSubscribers(scopeKey('kind', row.object_kind))]
      for (const watch of new Set(subscribers)) {
        // A watch of a generator includes its stacks, also new ones.
        if (
          row.scope_kind === 'generator' &&
          row.object_kind === 'stack' &&
          row.object_id !== null &&
          registry.getSubscribers(scope).has(watch)
        )
          for (const kind of stackScopes) registry.subscribe(watch, scopeKey(kind, row.object_id))
        queueChange(watch, row)
      }
    },
    flushBookmarks: ({ cursorText, cursor }) => {
      for (const watch of withoutBookmark) watch.bookmark(cursorText, cursor)
      withoutBookmark.clear()
    },
    closeByCredential: (credential) => {
      for (const watch of registry.listSubscribers()) if (watch.credentialKeys.includes(credential)) watch.end('revoked', 0)
    },
    list: () => registry.listSubscribers(),
  }
}

const stackScopes = ['stack', 'stack_status'] as const

/** A stack's watch includes its status; a generator's watch includes its stacks, also those created during the query. */
async function expandScopes(deps: WatchDeps, scopes: readonly WatchScope[]): Promise<Set<string>> {
  const generatorIds = scopes.flatMap(({ kind, id }) => (kind === 'generator' ? [id] : []))
  const stackIds = scopes.flatMap(({ kind, id }) => (kind === 'stack' ? [id] : []))
  const ownedIds = generatorIds.length === 0 ? [] : await listStackIds(deps, generatorIds)
  return new Set([
    ...scopes.map(({ kind, id }) => scopeKey(kind, id)),
    ...[...stackIds, ...ownedIds].flatMap((id) => stackScopes.map((kind) => scopeKey(kind, id))),
  ])
}

async function listStackIds(deps: WatchDeps, generatorIds: string[]): Promise<string[]> {
  for (;;) {
    const first = deps.publisher.nextBatch
    const owned = await stacks.idsOfGenerators(deps.sql, { generator_ids: generatorIds })
    const since = deps.ring.batchesSince(first)
    if (since === null) continue
    const createdIds = since
      .flatMap(({ rows }) => rows)
      .flatMap((row) =>
        row.scope_kind === 'generator' && row.object_kind === 'stack' && generatorIds.includes(row.scope_id) ? (row.object_id ?? []) : [],
      )
    return [...owned.map(({ id }) => id), ...createdIds]
  }
}

/** Rows since the client's cursor; null if the ring buffer or the queue cannot hold them, so the client must read everything. */
function findMissedRows(deps: WatchDeps, view: FeedView, request: WatchRequest, scopes: ReadonlySet<string>): ChangeRow[] | null {
  const cursor = requireCursor(view, request.cursor)
  if (cursor === null || cursor.epoch !== view.epoch || !isCursorOfEpoch(view.boots, cursor)) return null
  if (cursor.snapshot.xmin < view.floorXid) return null
  const rows = deps.ring
    .rowsSince(cursor.snapshot)
    ?.filter((row) => scopes.has(scopeKey(row.scope_kind, row.scope_id)) || scopes.has(scopeKey('kind', row.object_kind)))
  return rows === undefined || rows.length > deps.limits.queueKeys ? null : rows
}

function openWatch(
  deps: WatchDeps,
  registry: Registry<Watch>,
  view: FeedView,
  { takeResponse, request, missed }: { takeResponse: () => ServerResponse; request: WatchRequest; missed: ChangeRow[] | null },
): Watch {
  const { clock, metrics } = deps
  const { lastsMs, endsAs } = planLifetime(deps, request.endsAtMs)
  const watch: Watch = new Watch(takeResponse(), clock, {
    format: request.format,
    endsAtMs: clock.monotonicMs() + lastsMs,
    endsAs,
    pollEndsAtMs: null,
    limits: deps.limits,
    onFrame: metrics.recordFrame,
    onClosed: (reason) => {
      registry.remove(watch)
      metrics.recordClose(reason)
    },
  })
  watch.credentialKeys = request.credentialKeys
  const mode = missed === null ? 'reset' : 'resume'
  metrics.recordStart(mode, null)
  watch.sendHello(buildHelloFrame(deps, view, mode, lastsMs))
  return watch
}

const buildHelloFrame = (deps: WatchDeps, view: FeedView, mode: 'reset' | 'resume', lastsMs: number): WireFrame =>
  toWireFrame({
    type: 'hello',
    protocol: 1,
    epoch: view.epoch,
    boot: view.boots.boot,
    session: 0,
    broker: deps.brokerName,
    mode,
    reason: null,
    heartbeat_ms: Math.round(deps.pingMs),
    lifetime_ms: Math.round(lastsMs),
    time: new Date(deps.clock.now()).toISOString(),
  })

const buildChangeFrame = ({ scope_kind, scope_id, object_kind, object_id, op }: ChangeRow): WireFrame =>
  toWireFrame({ type: 'change', scope: `${scope_kind}:${scope_id}`, kind: object_kind, id: object_id, op })

function closeOldest(registry: Registry<Watch>, { credentialKeys }: WatchRequest): void {
  const session = credentialKeys.find((credential) => credential.startsWith('session '))
  const watches = session === undefined ? [] : registry.listSubscribers().filter((watch) => watch.credentialKeys.includes(session))
  if (watches.length >= watchesPerSessionMax) watches[0]!.end('overloaded', 0)
}
