// Starts a stream: resumes from a cursor or sends a snapshot, then hands the stream over to the publisher. The number of the next batch
// is taken before the first query. Batches published since then are replayed in the same step that subscribes, so each change is
// either in the query results or in the replay.
import { randomUUID } from 'node:crypto'
import type { Sql } from '@brokkr/postgres'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { ManifestCache } from '../../deployments/manifest-cache.ts'
import * as pruneApprovals from '../../reports/store/prune-approvals.ts'
import { digestDesiredState } from '../../targeting/rules.ts'
import * as desiredState from '../../targeting/store/desired-state.ts'
import { type Cursor, type DatabaseSnapshot, isCursorOfEpoch, parseSnapshot, signCursor, toSnapshotProbes } from '../reader/cursor.ts'
import type { Publisher } from '../reader/publisher.ts'
import type { FeedView } from '../reader/reader.ts'
import { recordSkips, type SkippedStack } from '../reader/record-skips.ts'
import { allRefreshHints, buildRefreshHintFrame, resubscribeLabels, toRefreshHint } from '../reader/refresh-hints.ts'
import { type Registry, scopeKey } from '../reader/registry.ts'
import type { RingBuffer } from '../reader/ring-buffer.ts'
import * as changeLog from '../store/change-log.ts'
import type { AgentStream } from './agent-stream.ts'
import { buildPutFrames, type ContentLimits, splitIntoPages, toStateKey, toWireFrame } from './frames.ts'

export interface StartDeps {
  readonly sql: Sql
  /** Connections for snapshots only, so that they cannot delay requests and resumes. */
  readonly snapshotSql: Sql
  readonly texts: ManifestCache
  readonly log: Log
  readonly publisher: Publisher
  readonly registry: Registry<AgentStream>
  readonly ring: RingBuffer
  readonly content: ContentLimits
  readonly wakeReader: () => void
  readonly onRingHit: () => void
  /** Called for a valid cursor that this database has not reached: its history was lost. */
  readonly requestNewEpoch: () => void
}
export interface StartRequest {
  readonly cursor: Cursor | null
  /** The agent's newest cursor if it requests a snapshot all the same: shows the epoch the agent comes from. */
  readonly seen: Cursor | null
  readonly reason: string
  /** Digest of the agent's desired state; if it matches, the snapshot contains no puts. */
  readonly holds: { readonly count: number; readonly digest: string } | null
}
export type StartMode = { readonly mode: 'resume'; readonly reason: null } | { readonly mode: 'snapshot'; readonly reason: string }

/** The query results are not of the epoch in hello. The agent reconnects; by then the reader has the new epoch. */
export class EpochMismatch extends Error {}

/** Decides by the last poll; the queries check epoch and floor again. */
export function decideStartMode(
  view: Pick<FeedView, 'epoch' | 'floorXid' | 'cursor'>,
  { cursor, reason }: Pick<StartRequest, 'cursor' | 'reason'>,
): StartMode {
  if (cursor === null) return { mode: 'snapshot', reason }
  if (cursor.epoch !== view.epoch) return { mode: 'snapshot', reason: 'epoch' }
  if (cursor.snapshot.xmin < view.floorXid) return { mode: 'snapshot', reason: 'gone' }
  return { mode: 'resume', reason: null }
}

export async function startStream(
  deps: StartDeps,
  stream: AgentStream,
  view: FeedView,
  request: StartRequest,
  mode: StartMode,
): Promise<void> {
  const snapshotReason = mode.mode === 'resume' ? await resume(deps, stream, view, request.cursor!) : mode.reason
  if (snapshotReason !== null) await sendSnapshot(deps, stream, view, { ...request, reason: snapshotReason })
  if (stream.state === 'closed') return
  deps.publisher.adopt(stream)
  deps.wakeReader()
}

/** Returns null if the stream resumed, else the reason for a snapshot. */
async function resume(deps: StartDeps, stream: AgentStream, view: FeedView, cursor: Cursor): Promise<string | null> {
  for (;;) {
    const first = deps.publisher.nextBatch
    const isInRing = deps.ring.rowsSince(cursor.snapshot) !== null
    const changed = isInRing
      ? []
      : await changeLog.sinceForAgent(deps.sql, { agent_id: stream.agentId, ...toSnapshotProbes(cursor.snapshot) })
    const scopes = await desiredState.scopesOfAgent(deps.sql, {
      agent_id: stream.agentId,
      epoch: cursor.epoch,
      boot: view.boots.boot,
    })
    const head = changed[0] ?? scopes
    if (!scopes.is_current || (changed[0]?.epoch ?? cursor.epoch) !== cursor.epoch) throw new EpochMismatch()
    const at = parseSnapshot(head.cursor)
    requireSameEpoch(deps, view, cursor, at)
    if (cursor.snapshot.xmin < BigInt(head.floor_xid)) return 'gone'
    await resubscribeLabels(deps, [stream])
    if (stream.state === 'closed') return null
    const since = isInRing ? { cursor: cursor.snapshot } : { first }
    if (!subscribe(deps, stream, scopes.stack_ids, { ...since, at })) continue
    if (isInRing) deps.onRingHit()
    for (const row of changed) if (row.stack_id !== null) stream.pendingStackIds.add(row.stack_id)
    return null
  }
}

/** A snapshot must not remove stacks that the agent received in a lost history: requests a new epoch first. */
function requireSameEpoch(deps: StartDeps, { epoch, boots }: FeedView, cursor: Cursor | null, at: DatabaseSnapshot): void {
  if (cursor === null || cursor.epoch !== epoch) return
  if (isCursorOfEpoch(boots, cursor) && cursor.snapshot.xmax <= at.xmax) return
  deps.requestNewEpoch()
  throw new EpochMismatch()
}

async function sendSnapshot(deps: StartDeps, stream: AgentStream, view: FeedView, request: StartRequest): Promise<void> {
  const list = await listAndSubscribe(deps, stream, view)
  requireSameEpoch(deps, view, request.cursor ?? request.seen, list.at)
  const stacks = toDesiredStacks(list.rows)
  const removals = list.rows.filter((row) => row.kind === 'removal')
  const { digest } = digestDesiredState(stacks)
  const isUnchanged = request.holds !== null && request.holds.count === stacks.length && request.holds.digest === digest
  const id = randomUUID()
  const claim = { agent_id: stream.agentId, snapshot_id: id, lease_seconds: claimSeconds }
  const approval = await pruneApprovals.claimRemovals(deps.sql, claim)
  const write = async () => {
    await stream.write(toWireFrame({ type: 'snapshot_begin', id, reason: request.reason, allow_removals: approval?.removals ?? null }))
    if (!isUnchanged) await writePuts(deps, stream, stacks)
    for (const row of removals) {
      const reason = row.is_deleted === true ? 'stack_deleted' : 'untargeted'
      await stream.write(toWireFrame({ type: 'del', stack_id: row.stack_id!, rev: row.rev!, reason }))
    }
    const cursor = signCursor(view.cursorKey, { epoch: view.epoch, boot: view.boots.boot, snapshot: list.at })
    await stream.write(
      toWireFrame({ type: 'snapshot_end', id, count: stacks.length, digest, removals: removals.length, unchanged: isUnchanged, cursor }),
    )
  }
  if (approval === null) await write()
  else await writeUnderClaim(deps.sql, stream, id, write)
}

/** Longer than a snapshot takes; releases the claims of killed processes. */
const claimSeconds = 60

async function writeUnderClaim(sql: Sql, stream: AgentStream, snapshotId: string, write: () => Promise<void>): Promise<void> {
  try {
    await write()
  } catch (error) {
    await pruneApprovals.releaseClaims(sql, { snapshot_id: snapshotId })
    throw error
  }
  const isSent = stream.state !== 'closed'
  await (isSent ? pruneApprovals.markUsed : pruneApprovals.releaseClaims)(sql, { snapshot_id: snapshotId })
}

async function listAndSubscribe(deps: StartDeps, stream: AgentStream, { epoch, boots }: FeedView) {
  for (;;) {
    const first = deps.publisher.nextBatch
    const rows = await desiredState.listForAgent(deps.snapshotSql, { agent_id: stream.agentId, epoch, boot: boots.boot })
    if (!rows[0]!.is_current) throw new EpochMismatch()
    const at = parseSnapshot(rows[0]!.cursor)
    await resubscribeLabels({ sql: deps.snapshotSql, registry: deps.registry }, [stream])
    const stackIds = toDesiredStacks(rows).map((row) => row.stack_id)
    if (stream.state === 'closed' || subscribe(deps, stream, stackIds, { first, at })) return { rows, at }
  }
}

type Since = { readonly at: DatabaseSnapshot } & ({ readonly first: number } | { readonly cursor: DatabaseSnapshot })

/** Synchronous: subscribes to all scopes, then replays the batches published since. Returns false if the ring buffer dropped them. */
function subscribe(deps: StartDeps, stream: AgentStream, stackIds: readonly string[], since: Since): boolean {
  const rows =
    'first' in since ? (deps.ring.batchesSince(since.first)?.flatMap((batch) => batch.rows) ?? null) : deps.ring.rowsSince(since.cursor)
  if (rows === null) return false
  deps.registry.subscribe(stream, scopeKey('agent', stream.agentId))
  for (const id of stackIds) deps.registry.subscribe(stream, scopeKey('stack', id))
  stream.startedAt = since.at
  const scopes = new Set(deps.registry.listScopes(stream))
  for (const row of rows) {
    if (!scopes.has(scopeKey(row.scope_kind, row.scope_id))) continue
    if (row.scope_kind === 'stack') stream.pendingStackIds.add(row.scope_id)
    else if (row.object_kind === 'target' && row.object_id !== null) stream.pendingStackIds.add(row.object_id)
  }
  for (const what of findMissedHints(deps, stream, scopes)) stream.queue(`look:${what}`, buildRefreshHintFrame(what, 1))
  return true
}

/** Refresh hints for the agent's labels since hello, at which the agent read everything; it may have waited long for its snapshot. */
function findMissedHints(deps: StartDeps, stream: AgentStream, scopes: ReadonlySet<string>): Iterable<string> {
  const batches = deps.ring.batchesSince(stream.helloBatch)
  if (batches === null) return allRefreshHints
  const rows = batches.flatMap((batch) => batch.rows).filter((row) => scopes.has(scopeKey(row.scope_kind, row.scope_id)))
  return new Set(rows.flatMap((row) => (row.scope_kind === 'agent' ? [] : (toRefreshHint(row) ?? []))))
}

async function writePuts(deps: StartDeps, stream: AgentStream, stacks: readonly desiredState.WantedStack[]): Promise<void> {
  const { content, snapshotSql: sql, texts } = deps
  const skipped: SkippedStack[] = []
  for (const page of splitIntoPages(stacks, { objects: 500, bytes: 1 << 20, inlineBytes: content.inlineBytes })) {
    if (stream.state === 'closed') return
    const frames = await buildPutFrames({ sql, texts, content }, page)
    for (const state of page) {
      const frame = frames.get(state.stack_id)!
      if (frame.skip !== null) skipped.push({ agentId: stream.agentId, skip: frame.skip })
      await stream.writePut(state.stack_id, frame, toStateKey(state))
    }
  }
  await recordSkips(deps, skipped)
}

const toDesiredStacks = (rows: Awaited<ReturnType<typeof desiredState.listForAgent>>): desiredState.WantedStack[] =>
  rows.filter((row) => row.kind === 'wanted') as desiredState.WantedStack[]
