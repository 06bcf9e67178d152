// The start of a stream: resume from a cursor, or a snapshot; then the hand-over to the reader. The number of the next
// batch is noted before the first read, and batches published meanwhile are replayed as keys in the step that subscribes,
// so a change is either in what was read or in what is replayed.
import { randomUUID } from 'node:crypto'
import { digestOf } from '../domain/digest-of.ts'
import type { Seal } from '../seal.ts'
import * as changeLog from '../store/change-log.ts'
import type { Sql } from '../store/sql.ts'
import * as wanted from '../store/wanted.ts'
import { type Cursor, parseSnapshot, printCursor, type Snapshot } from './cursor.ts'
import { frameBuffer, markOf, pagesOf, putFrames } from './frames.ts'
import type { Publisher } from './publish.ts'
import type { FeedView } from './reader.ts'
import { type Registry, scopeKey } from './registry.ts'
import type { Ring } from './ring.ts'
import type { AgentStream } from './stream.ts'

export interface StartDeps {
  readonly sql: Sql
  readonly seal: Seal
  readonly publisher: Publisher
  readonly registry: Registry<AgentStream>
  readonly ring: Ring
  readonly inlineBytes: number
  readonly wakeReader: () => void
}
export interface Wish {
  readonly cursor: Cursor | null
  readonly reason: string
  /** What the follower holds; equal to the listing, the puts are left out. */
  readonly holds: { readonly count: number; readonly digest: string } | null
}
export type StartMode = { readonly mode: 'resume'; readonly reason: null } | { readonly mode: 'snapshot'; readonly reason: string }

/** Decided from the last poll; the reading statement checks epoch and floor once more. */
export function decideMode(view: FeedView, wish: Wish): StartMode {
  const { cursor } = wish
  if (cursor === null) return { mode: 'snapshot', reason: wish.reason }
  if (cursor.epoch !== view.epoch) return { mode: 'snapshot', reason: 'epoch' }
  if (cursor.snapshot.xmin < view.floorXid) return { mode: 'snapshot', reason: 'gone' }
  return { mode: 'resume', reason: null }
}

export async function startStream(deps: StartDeps, stream: AgentStream, view: FeedView, wish: Wish, decided: StartMode): Promise<void> {
  const resumed = decided.mode === 'resume' ? await resume(deps, stream, wish.cursor!) : decided.reason
  if (resumed !== null) await snapshot(deps, stream, view, { ...wish, reason: resumed })
  if (stream.state === 'closed') return
  deps.publisher.adopt(stream)
  deps.wakeReader()
}

/** null when resumed; else why only a snapshot will do. */
async function resume(deps: StartDeps, stream: AgentStream, cursor: Cursor): Promise<string | null> {
  for (;;) {
    const first = deps.publisher.nextBatch
    const rows = await changeLog.sinceForAgent(deps.sql, {
      agent_id: stream.agentId,
      xmax: String(cursor.snapshot.xmax),
      in_flight: cursor.snapshot.inFlight.map(String),
    })
    const head = rows[0]
    if (head === undefined || head.epoch !== cursor.epoch) return 'epoch'
    if (cursor.snapshot.xmin < BigInt(head.floor_xid)) return 'gone'
    const at = parseSnapshot(head.cursor)
    if (at.xmax < cursor.snapshot.xmax) return 'epoch' // this history cannot have issued it
    const targets = await wanted.listForAgent(deps.sql, { agent_id: stream.agentId })
    const isReplayed = subscribe(
      deps,
      stream,
      wantedOf(targets).map((row) => row.stack_id),
      { first, at },
    )
    if (!isReplayed) continue
    for (const row of rows) if (row.stack_id !== null) stream.noted.add(row.stack_id)
    return null
  }
}

async function snapshot(deps: StartDeps, stream: AgentStream, view: FeedView, wish: Wish): Promise<void> {
  const begun = await listAndSubscribe(deps, stream)
  const stacks = wantedOf(begun.listed)
  const removals = begun.listed.filter((row) => row.kind === 'removal')
  const { digest } = digestOf(stacks)
  const isUnchanged = wish.holds !== null && wish.holds.count === stacks.length && wish.holds.digest === digest
  const id = randomUUID()
  await stream.write(frameBuffer({ type: 'snapshot_begin', id, reason: wish.reason, allow_removals: null }))
  if (!isUnchanged) await writePuts(deps, stream, stacks)
  for (const row of removals) {
    const reason = row.is_deleted === true ? 'stack_deleted' : 'untargeted'
    await stream.write(frameBuffer({ type: 'del', stack_id: row.stack_id!, rev: row.rev!, reason }))
  }
  const cursor = printCursor(view.cursorKey, { epoch: view.epoch, snapshot: begun.at })
  await stream.write(
    frameBuffer({ type: 'snapshot_end', id, count: stacks.length, digest, removals: removals.length, unchanged: isUnchanged, cursor }),
  )
}

async function listAndSubscribe(deps: StartDeps, stream: AgentStream) {
  for (;;) {
    const first = deps.publisher.nextBatch
    const listed = await wanted.listForAgent(deps.sql, { agent_id: stream.agentId })
    const at = parseSnapshot(listed[0]!.cursor)
    if (
      subscribe(
        deps,
        stream,
        wantedOf(listed).map((row) => row.stack_id),
        { first, at },
      )
    )
      return { listed, at }
  }
}

/** Synchronous: subscribe to all scopes, then replay what was published since `first`. False: the ring has lost it, begin again. */
function subscribe(deps: StartDeps, stream: AgentStream, stackIds: readonly string[], read: { first: number; at: Snapshot }): boolean {
  const batches = deps.ring.since(read.first)
  if (batches === null) return false
  deps.registry.remove(stream)
  const scopes = new Set([scopeKey('agent', stream.agentId), ...stackIds.map((id) => scopeKey('stack', id))])
  for (const scope of scopes) deps.registry.subscribe(stream, scope)
  stream.startedAt = read.at
  for (const { rows } of batches) {
    for (const row of rows) {
      if (!scopes.has(scopeKey(row.scope_kind, row.scope_id))) continue
      if (row.scope_kind === 'stack') stream.noted.add(row.scope_id)
      else if (row.object_kind === 'target' && row.object_id !== null) stream.noted.add(row.object_id)
    }
  }
  return true
}

async function writePuts(deps: StartDeps, stream: AgentStream, stacks: readonly wanted.WantedStack[]): Promise<void> {
  for (const page of pagesOf(stacks, { objects: 500, bytes: 1 << 20, inlineBytes: deps.inlineBytes })) {
    if (stream.state === 'closed') return
    const frames = await putFrames(deps, page)
    for (const state of page) await stream.writePut(state.stack_id, frames.get(state.stack_id)!, markOf(state))
  }
}

const wantedOf = (listed: Awaited<ReturnType<typeof wanted.listForAgent>>): wanted.WantedStack[] =>
  listed.filter((row) => row.kind === 'wanted') as wanted.WantedStack[]
