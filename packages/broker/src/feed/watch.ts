// Watches: pages and automation follow pointers ("this changed, read it again"). They hold no content, so permission is checked
// where the content is read. A watch resumes from the ring or is reset, which means: read everything once.
import type { ServerResponse } from 'node:http'
import type { WatchScope } from '../domain/watch-scope.ts'
import type { ChangeRow } from '../store/change-log.ts'
import type { Sql } from '../store/sql.ts'
import * as stacks from '../store/stacks.ts'
import { isOfHistory } from './boots.ts'
import type { Form } from './form.ts'
import { type WireFrame, wireFrame } from './frames.ts'
import { cursorOf, lifeOf, type OpenDeps } from './open-stream.ts'
import type { Published, Publisher } from './publish.ts'
import type { FeedView } from './reader.ts'
import { Registry, scopeKey } from './registry.ts'
import type { Ring } from './ring.ts'
import { FrameStream } from './stream.ts'

export interface WatchWish {
  readonly scopes: readonly WatchScope[]
  readonly cursor: string | undefined
  readonly form: Form
  /** Credentials it rests on, as `kind id`: when one of them dies, so does the watch. */
  readonly rests: readonly string[]
  /** When its key expires, by the monotonic clock. */
  readonly endsAtMs: number | null
}
export interface WatchDeps extends Pick<OpenDeps, 'clock' | 'metrics' | 'brokerName' | 'pingMs' | 'lifeMs' | 'limits'> {
  readonly sql: Sql
  readonly ring: Ring
  readonly publisher: Pick<Publisher, 'nextBatch'>
}
export interface Watches {
  /** `view` gives what the last poll knew. */
  open(view: () => FeedView, answer: () => ServerResponse, wish: WatchWish): Promise<void>
  readonly offer: (row: ChangeRow) => void
  readonly published: (read: Published) => void
  /** A credential changed or died: whoever still may opens another one. */
  closeOf(credential: string): void
  all(): Watch[]
}
/** Pages left open in many tabs: the oldest gives way. */
const perSessionMax = 20

export class Watch extends FrameStream {
  rests: readonly string[] = []
}

export function createWatches(deps: WatchDeps): Watches {
  const registry = new Registry<Watch>()
  const touched = new Set<Watch>()
  const tell = (watch: Watch, row: ChangeRow) => {
    const change = changeFrame(row)
    watch.queue(`${row.scope_kind} ${row.scope_id} ${row.object_kind} ${row.object_id}`, change)
    touched.add(watch)
  }
  return {
    open: async (view, answer, wish) => {
      const brought = await broughtScopes(deps, wish.scopes)
      // From here on one synchronous step: whatever is published later finds the watch.
      const now = view()
      const missed = missedRows(deps, now, wish, brought)
      closeOldest(registry, wish)
      const watch = greet(deps, registry, now, { answer, wish, missed })
      for (const scope of brought) registry.subscribe(watch, scope)
      watch.state = 'live'
      for (const row of missed ?? []) tell(watch, row)
      watch.bookmark(now.cursorText, now.cursor)
    },
    offer: (row) => {
      const scope = scopeKey(row.scope_kind, row.scope_id)
      const followers = [...registry.of(scope), ...registry.of(scopeKey('kind', row.object_kind))]
      for (const watch of new Set(followers)) {
        // A generator brings its stacks, those to come too.
        if (row.scope_kind === 'generator' && row.object_kind === 'stack' && row.object_id !== null && registry.of(scope).has(watch))
          for (const kind of stackScopes) registry.subscribe(watch, scopeKey(kind, row.object_id))
        tell(watch, row)
      }
    },
    published: ({ cursorText, cursor }) => {
      for (const watch of touched) watch.bookmark(cursorText, cursor)
      touched.clear()
    },
    closeOf: (credential) => {
      for (const watch of registry.all()) if (watch.rests.includes(credential)) watch.end('revoked', 0)
    },
    all: () => registry.all(),
  }
}

const stackScopes = ['stack', 'stack_status'] as const

/** A stack brings what is told about it, a generator its stacks, those that came while they were listed too. */
async function broughtScopes(deps: WatchDeps, scopes: readonly WatchScope[]): Promise<Set<string>> {
  const generatorIds = scopes.flatMap(({ kind, id }) => (kind === 'generator' ? [id] : []))
  const stackIds = scopes.flatMap(({ kind, id }) => (kind === 'stack' ? [id] : []))
  const owned = generatorIds.length === 0 ? [] : await stacksOf(deps, generatorIds)
  return new Set([
    ...scopes.map(({ kind, id }) => scopeKey(kind, id)),
    ...[...stackIds, ...owned].flatMap((id) => stackScopes.map((kind) => scopeKey(kind, id))),
  ])
}

async function stacksOf(deps: WatchDeps, generatorIds: string[]): Promise<string[]> {
  for (;;) {
    const first = deps.publisher.nextBatch
    const owned = await stacks.idsOfGenerators(deps.sql, { generator_ids: generatorIds })
    const since = deps.ring.since(first)
    if (since === null) continue
    const made = since
      .flatMap(({ rows }) => rows)
      .flatMap((row) =>
        row.scope_kind === 'generator' && row.object_kind === 'stack' && generatorIds.includes(row.scope_id) ? (row.object_id ?? []) : [],
      )
    return [...owned.map(({ id }) => id), ...made]
  }
}

/** What it has not heard of yet; null: more than the ring or a queue can tell, so it must read everything. */
function missedRows(deps: WatchDeps, view: FeedView, wish: WatchWish, scopes: ReadonlySet<string>): ChangeRow[] | null {
  const cursor = cursorOf(view, wish.cursor)
  if (cursor === null || cursor.epoch !== view.epoch || !isOfHistory(view.boots, cursor)) return null
  if (cursor.snapshot.xmin < view.floorXid) return null
  const rows = deps.ring
    .rowsSince(cursor.snapshot)
    ?.filter((row) => scopes.has(scopeKey(row.scope_kind, row.scope_id)) || scopes.has(scopeKey('kind', row.object_kind)))
  return rows === undefined || rows.length > deps.limits.queueKeys ? null : rows
}

function greet(
  deps: WatchDeps,
  registry: Registry<Watch>,
  view: FeedView,
  { answer, wish, missed }: { answer: () => ServerResponse; wish: WatchWish; missed: ChangeRow[] | null },
): Watch {
  const { clock, metrics } = deps
  const { lastsMs, endsAs } = lifeOf(deps, wish.endsAtMs)
  const watch: Watch = new Watch(answer(), clock, {
    form: wish.form,
    endsAtMs: clock.monotonicMs() + lastsMs,
    endsAs,
    pollEndsAtMs: null,
    limits: deps.limits,
    onFrame: metrics.frame,
    onClosed: (reason) => {
      registry.remove(watch)
      metrics.closed(reason)
    },
  })
  watch.rests = wish.rests
  const mode = missed === null ? 'reset' : 'resume'
  metrics.started(mode, null)
  watch.greet(helloFrame(deps, view, mode, lastsMs))
  return watch
}

const helloFrame = (deps: WatchDeps, view: FeedView, mode: 'reset' | 'resume', lastsMs: number): WireFrame =>
  wireFrame({
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

const changeFrame = ({ scope_kind, scope_id, object_kind, object_id, op }: ChangeRow): WireFrame =>
  wireFrame({ type: 'change', scope: `${scope_kind}:${scope_id}`, kind: object_kind, id: object_id, op })

function closeOldest(registry: Registry<Watch>, { rests }: WatchWish): void {
  const session = rests.find((credential) => credential.startsWith('session '))
  const open = session === undefined ? [] : registry.all().filter((watch) => watch.rests.includes(session))
  if (open.length >= perSessionMax) open[0]!.end('overloaded', 0)
}
