// The start of a stream: resume from a cursor, or a snapshot; then the hand-over to the reader. The number of the next
// batch is noted before the first read, and batches published meanwhile are replayed as keys in the step that subscribes,
// so a change is either in what was read or in what is replayed.
import { randomUUID } from 'node:crypto'
import type { Log } from '@brokkr/runtime/log.ts'
import { digestOf } from '../domain/digest-of.ts'
import type { RevisionTexts } from '../revision-texts.ts'
import * as changeLog from '../store/change-log.ts'
import * as pruneApprovals from '../store/prune-approvals.ts'
import type { Sql } from '../store/sql.ts'
import * as wanted from '../store/wanted.ts'
import type { AgentStream } from './agent-stream.ts'
import { isOfHistory } from './boots.ts'
import { type Cursor, parseSnapshot, printCursor, probesOf, type Snapshot } from './cursor.ts'
import { type ContentLimits, markOf, pagesOf, putFrames, wireFrame } from './frames.ts'
import { allLooks, lookFrame, lookOf, resubscribeMarks } from './looks.ts'
import type { Publisher } from './publish.ts'
import type { FeedView } from './reader.ts'
import { type Registry, scopeKey } from './registry.ts'
import type { Ring } from './ring.ts'
import { type SkippedStack, tellSkips } from './skips.ts'

export interface StartDeps {
  readonly sql: Sql
  /** Of snapshots alone, so that they cannot keep calls and resumes waiting. */
  readonly snapshotSql: Sql
  readonly texts: RevisionTexts
  readonly log: Log
  readonly publisher: Publisher
  readonly registry: Registry<AgentStream>
  readonly ring: Ring
  readonly content: ContentLimits
  readonly wakeReader: () => void
  readonly onRingHit: () => void
  /** A cursor of ours from a time this database has not seen: it went back, and nobody noticed so far. */
  readonly onFutureCursor: () => void
}
export interface Wish {
  readonly cursor: Cursor | null
  /** The newest one it had, where a list is wanted all the same: it shows which history the follower comes from. */
  readonly seen: Cursor | null
  readonly reason: string
  /** What the follower holds; equal to the listing, the puts are left out. */
  readonly holds: { readonly count: number; readonly digest: string } | null
}
export type StartMode = { readonly mode: 'resume'; readonly reason: null } | { readonly mode: 'snapshot'; readonly reason: string }

/** What was read is not of the history that hello named: whoever comes back meets what the reader has noticed by then. */
export class OtherHistory extends Error {}

/** Decided from the last poll; the reading statement checks epoch and floor once more. */
export function decideMode(
  view: Pick<FeedView, 'epoch' | 'floorXid' | 'cursor'>,
  { cursor, reason }: Pick<Wish, 'cursor' | 'reason'>,
): StartMode {
  if (cursor === null) return { mode: 'snapshot', reason }
  if (cursor.epoch !== view.epoch) return { mode: 'snapshot', reason: 'epoch' }
  if (cursor.snapshot.xmin < view.floorXid) return { mode: 'snapshot', reason: 'gone' }
  return { mode: 'resume', reason: null }
}

export async function startStream(deps: StartDeps, stream: AgentStream, view: FeedView, wish: Wish, decided: StartMode): Promise<void> {
  const resumed = decided.mode === 'resume' ? await resume(deps, stream, view, wish.cursor!) : decided.reason
  if (resumed !== null) await snapshot(deps, stream, view, { ...wish, reason: resumed })
  if (stream.state === 'closed') return
  deps.publisher.adopt(stream)
  deps.wakeReader()
}

/** null when resumed; else why only a snapshot will do. */
async function resume(deps: StartDeps, stream: AgentStream, view: FeedView, cursor: Cursor): Promise<string | null> {
  for (;;) {
    const first = deps.publisher.nextBatch
    const isInRing = deps.ring.rowsSince(cursor.snapshot) !== null
    const changed = isInRing ? [] : await changeLog.sinceForAgent(deps.sql, { agent_id: stream.agentId, ...probesOf(cursor.snapshot) })
    const scopes = await wanted.scopesOfAgent(deps.sql, {
      agent_id: stream.agentId,
      epoch: cursor.epoch,
      boot: view.boots.boot,
    })
    const head = changed[0] ?? scopes
    if (!scopes.is_current || (changed[0]?.epoch ?? cursor.epoch) !== cursor.epoch) throw new OtherHistory()
    const at = parseSnapshot(head.cursor)
    requireHistory(deps, view, cursor, at)
    if (cursor.snapshot.xmin < BigInt(head.floor_xid)) return 'gone'
    await resubscribeMarks(deps, [stream])
    if (stream.state === 'closed') return null
    const since = isInRing ? { cursor: cursor.snapshot } : { first }
    if (!subscribe(deps, stream, scopes.stack_ids, { ...since, at })) continue
    if (isInRing) deps.onRingHit()
    for (const row of changed) if (row.stack_id !== null) stream.noted.add(row.stack_id)
    return null
  }
}

/** A list would say nothing about what the follower has from a history that is lost: first this one gets an epoch of its own. */
function requireHistory(deps: StartDeps, { epoch, boots }: FeedView, shown: Cursor | null, at: Snapshot): void {
  if (shown === null || shown.epoch !== epoch) return
  if (isOfHistory(boots, shown) && shown.snapshot.xmax <= at.xmax) return
  deps.onFutureCursor()
  throw new OtherHistory()
}

async function snapshot(deps: StartDeps, stream: AgentStream, view: FeedView, wish: Wish): Promise<void> {
  const begun = await listAndSubscribe(deps, stream, view)
  requireHistory(deps, view, wish.cursor ?? wish.seen, begun.at)
  const stacks = wantedOf(begun.listed)
  const removals = begun.listed.filter((row) => row.kind === 'removal')
  const { digest } = digestOf(stacks)
  const isUnchanged = wish.holds !== null && wish.holds.count === stacks.length && wish.holds.digest === digest
  const id = randomUUID()
  const approved = await pruneApprovals.takeRemovals(deps.sql, { agent_id: stream.agentId })
  await stream.write(wireFrame({ type: 'snapshot_begin', id, reason: wish.reason, allow_removals: approved?.removals ?? null }))
  if (!isUnchanged) await writePuts(deps, stream, stacks)
  for (const row of removals) {
    const reason = row.is_deleted === true ? 'stack_deleted' : 'untargeted'
    await stream.write(wireFrame({ type: 'del', stack_id: row.stack_id!, rev: row.rev!, reason }))
  }
  const cursor = printCursor(view.cursorKey, { epoch: view.epoch, boot: view.boots.boot, snapshot: begun.at })
  await stream.write(
    wireFrame({ type: 'snapshot_end', id, count: stacks.length, digest, removals: removals.length, unchanged: isUnchanged, cursor }),
  )
  if (approved !== null && stream.state !== 'closed') await pruneApprovals.markUsed(deps.sql, { ids: approved.ids })
}

async function listAndSubscribe(deps: StartDeps, stream: AgentStream, { epoch, boots }: FeedView) {
  for (;;) {
    const first = deps.publisher.nextBatch
    const listed = await wanted.listForAgent(deps.snapshotSql, { agent_id: stream.agentId, epoch, boot: boots.boot })
    if (!listed[0]!.is_current) throw new OtherHistory()
    const at = parseSnapshot(listed[0]!.cursor)
    await resubscribeMarks({ sql: deps.snapshotSql, registry: deps.registry }, [stream])
    const stackIds = wantedOf(listed).map((row) => row.stack_id)
    if (stream.state === 'closed' || subscribe(deps, stream, stackIds, { first, at })) return { listed, at }
  }
}

type Since = { readonly at: Snapshot } & ({ readonly first: number } | { readonly cursor: Snapshot })

/** Synchronous: subscribe to all scopes, then replay what was published since. False: the ring has lost it, begin again. */
function subscribe(deps: StartDeps, stream: AgentStream, stackIds: readonly string[], since: Since): boolean {
  const rows = 'first' in since ? (deps.ring.since(since.first)?.flatMap((batch) => batch.rows) ?? null) : deps.ring.rowsSince(since.cursor)
  if (rows === null) return false
  deps.registry.subscribe(stream, scopeKey('agent', stream.agentId))
  for (const id of stackIds) deps.registry.subscribe(stream, scopeKey('stack', id))
  stream.startedAt = since.at
  const scopes = new Set(deps.registry.scopesOf(stream))
  for (const row of rows) {
    if (!scopes.has(scopeKey(row.scope_kind, row.scope_id))) continue
    if (row.scope_kind === 'stack') stream.noted.add(row.scope_id)
    else if (row.object_kind === 'target' && row.object_id !== null) stream.noted.add(row.object_id)
  }
  for (const what of missedLooks(deps, stream, scopes)) stream.queue(`look:${what}`, lookFrame(what, 1))
  return true
}

/** What came for its labels since hello, at which the agent looked at everything; the line may have been long. */
function missedLooks(deps: StartDeps, stream: AgentStream, scopes: ReadonlySet<string>): Iterable<string> {
  const batches = deps.ring.since(stream.greetedAt)
  if (batches === null) return allLooks
  const rows = batches.flatMap((batch) => batch.rows).filter((row) => scopes.has(scopeKey(row.scope_kind, row.scope_id)))
  return new Set(rows.flatMap((row) => (row.scope_kind === 'agent' ? [] : (lookOf(row) ?? []))))
}

async function writePuts(deps: StartDeps, stream: AgentStream, stacks: readonly wanted.WantedStack[]): Promise<void> {
  const { content, snapshotSql: sql, texts } = deps
  const skipped: SkippedStack[] = []
  for (const page of pagesOf(stacks, { objects: 500, bytes: 1 << 20, inlineBytes: content.inlineBytes })) {
    if (stream.state === 'closed') return
    const frames = await putFrames({ sql, texts, content }, page)
    for (const state of page) {
      const frame = frames.get(state.stack_id)!
      if (frame.skip !== null) skipped.push({ agentId: stream.agentId, skip: frame.skip })
      await stream.writePut(state.stack_id, frame, markOf(state))
    }
  }
  await tellSkips(deps, skipped)
}

const wantedOf = (listed: Awaited<ReturnType<typeof wanted.listForAgent>>): wanted.WantedStack[] =>
  listed.filter((row) => row.kind === 'wanted') as wanted.WantedStack[]
