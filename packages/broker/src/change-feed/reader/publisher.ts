// Turns change rows into frames: finds the streams that subscribe to them, loads the current state, and queues one shared frame per
// stack. It uses the state, never the content of a row. If it fails before the frames are queued, the cursor does not advance.

import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { ManifestCache } from '../../deployments/manifest-cache.ts'
import * as desiredState from '../../targeting/store/desired-state.ts'
import type { ChangeRow } from '../store/change-log.ts'
import type { AgentStream } from '../streams/agent-stream.ts'
import { buildPutFrames, type ContentLimits, splitIntoPages, toStateKey, toWireFrame } from '../streams/frames.ts'
import type { FeedEvents, PublishedBatch } from './feed-events.ts'
import { recordSkips, type SkippedStack } from './record-skips.ts'
import { buildRefreshHintFrame, resubscribeLabels, toRefreshHint } from './refresh-hints.ts'
import { type Registry, scopeKey } from './registry.ts'
import type { RingBuffer } from './ring-buffer.ts'

export interface Publisher {
  /** Number of the next batch with rows. A starting stream reads it before its first query. */
  readonly nextBatch: number
  /** Takes over a started stream: its pending stacks are loaded with the next batch, then it is live. */
  adopt(stream: AgentStream): void
  /** Loads the states of changed stacks that have subscribers in this process; null if there are none. */
  loadStates(sql: Sql, stackIds: ReadonlySet<string>): Promise<desiredState.LoadedState[]> | null
  /** `loaded`: states that were read after the rows; they are not read again. */
  publish(rows: readonly ChangeRow[], batch: PublishedBatch, loaded?: readonly desiredState.LoadedState[]): Promise<void>
}
export interface PublisherDeps {
  readonly sql: Sql
  readonly clock: Clock
  readonly texts: ManifestCache
  readonly log: Log
  readonly registry: Registry<AgentStream>
  readonly ring: RingBuffer
  readonly content: ContentLimits
  readonly events: FeedEvents
}

interface BatchMatches {
  /** Stacks by stream whose target must be read again. */
  readonly targets: Map<AgentStream, Set<string>>
  /** Changed stacks with a live subscriber. */
  readonly stacks: Set<string>
  /** Refresh hints by stream, each with its number of subscribers. */
  readonly hints: Map<AgentStream, Map<string, number>>
}

export function createPublisher(deps: PublisherDeps): Publisher {
  let nextBatch = 1
  let waiting: AgentStream[] = []
  return {
    get nextBatch() {
      return nextBatch
    },
    adopt: (stream) => {
      waiting.push(stream)
    },
    loadStates: (sql, stackIds) => {
      const isLarge = stackIds.size > loadedMax
      const subscribed = isLarge ? [] : [...stackIds].filter((id) => deps.registry.getSubscribers(scopeKey('stack', id)).size > 0)
      if (subscribed.length === 0) return null
      return desiredState.statesWithContent(sql, { stack_ids: subscribed, inline_bytes: deps.content.inlineBytes })
    },
    publish: async (rows, batch, loaded = []) => {
      // One synchronous step: a stream that starts now either finds the batch in the ring buffer or is subscribed already.
      const matches = matchRows(deps, rows)
      if (rows.length > 0) deps.ring.append({ number: nextBatch++, at: batch.atMs, rows, cursor: batch.cursor })
      const adopted = waiting.filter((stream) => stream.state === 'starting')
      waiting = []
      for (const stream of adopted) activateStream(stream, matches)
      const listTouched = () =>
        new Set([...matches.targets.keys(), ...matches.hints.keys(), ...listStackStreams(deps, matches.stacks), ...adopted])
      try {
        await queueFrames(deps, matches, loaded)
      } catch (error) {
        for (const stream of listTouched()) stream.flush()
        // The cursor does not advance, so these rows are read again; the pending stacks of adopted streams must be loaded with them.
        for (const stream of adopted) deactivateStream(stream, matches)
        waiting.push(...adopted)
        throw error
      }
      for (const stream of listTouched()) stream.bookmark(batch.cursorText, batch.cursor)
      reportQueuedPuts(deps, rows, matches, batch)
      deps.events.emit('published', batch)
    },
  }
}

function reportQueuedPuts(deps: PublisherDeps, rows: readonly ChangeRow[], matches: BatchMatches, batch: PublishedBatch): void {
  const sinceReadSeconds = (deps.clock.monotonicMs() - batch.atMs) / 1000
  for (const { object_kind, scope_id, age_seconds } of rows)
    if (object_kind === 'deployment_object' && age_seconds !== null && matches.stacks.has(scope_id))
      deps.events.emit('putQueued', age_seconds + sinceReadSeconds)
}

function matchRows(deps: PublisherDeps, rows: readonly ChangeRow[]): BatchMatches {
  const matches: BatchMatches = { targets: new Map(), stacks: new Set(), hints: new Map() }
  for (const row of rows) {
    deps.events.emit('row', row)
    const subscribers = deps.registry.getSubscribers(scopeKey(row.scope_kind, row.scope_id))
    for (const stream of subscribers) matchRow(stream, row, matches, subscribers.size)
  }
  return matches
}

function matchRow(stream: AgentStream, row: ChangeRow, matches: BatchMatches, subscribers: number): void {
  const stackId = row.scope_kind === 'stack' ? row.scope_id : row.object_kind === 'target' ? row.object_id : null
  const hint = stackId === null ? toRefreshHint(row) : null
  if (hint !== null) addRefreshHint(matches.hints, stream, hint, subscribers)
  if (stackId === null) return
  if (stream.state === 'starting') stream.pendingStackIds.add(stackId)
  else if (row.scope_kind === 'stack') matches.stacks.add(stackId)
  else addTarget(matches.targets, stream, stackId)
}

function activateStream(stream: AgentStream, matches: BatchMatches): void {
  for (const stackId of stream.pendingStackIds) addTarget(matches.targets, stream, stackId)
  stream.pendingStackIds.clear()
  stream.state = 'live'
}

function deactivateStream(stream: AgentStream, matches: BatchMatches): void {
  if (stream.state !== 'live') return
  for (const stackId of matches.targets.get(stream) ?? []) stream.pendingStackIds.add(stackId)
  stream.state = 'starting'
}

/** States of more stacks are loaded by queueFrames, in pages. */
const loadedMax = 4

async function queueFrames(deps: PublisherDeps, matches: BatchMatches, loaded: readonly desiredState.LoadedState[]): Promise<void> {
  // Subscribe before the load: a change that commits after the load arrives as a later row.
  for (const [stream, stackIds] of matches.targets) for (const id of stackIds) deps.registry.subscribe(stream, scopeKey('stack', id))
  const targetedIds = new Set([...matches.targets.values()].flatMap((ids) => [...ids]))
  // A state loaded before the subscription may be outdated.
  const preloaded = loaded.filter(({ stack_id }) => matches.stacks.has(stack_id) && !targetedIds.has(stack_id))
  const stackIds = new Set([...matches.stacks, ...targetedIds])
  for (const { stack_id } of preloaded) stackIds.delete(stack_id)
  const live = await readLiveTargets(deps.sql, matches.targets)
  const others = stackIds.size === 0 ? [] : await desiredState.readDesiredStates(deps.sql, { stack_ids: [...stackIds] })
  const states = [...preloaded, ...others]
  await resubscribeLabels(
    deps,
    [...matches.hints].flatMap(([stream, hints]) => (hints.has('agent') ? [stream] : [])),
  )
  await queuePuts(deps, matches, states, live)
  queueDels(deps, matches, states, live)
  for (const [stream, hints] of matches.hints)
    for (const [what, subscribers] of hints) stream.queue(`look:${what}`, buildRefreshHintFrame(what, subscribers))
}

async function readLiveTargets(sql: Sql, targets: BatchMatches['targets']): Promise<ReadonlySet<string>> {
  const pairs = [...targets].flatMap(([stream, ids]) => [...ids].map((id) => [stream.agentId, id] as const))
  if (pairs.length === 0) return new Set()
  const rows = await desiredState.listLiveTargets(sql, {
    agent_ids: pairs.map(([agent]) => agent),
    stack_ids: pairs.map(([, stack]) => stack),
  })
  return new Set(rows.map((row) => `${row.agent_id} ${row.stack_id}`))
}

async function queuePuts(
  deps: PublisherDeps,
  matches: BatchMatches,
  states: readonly desiredState.StackState[],
  live: ReadonlySet<string>,
): Promise<void> {
  const remaining = states.filter((state) => !state.is_deleted)
  const skipped: SkippedStack[] = []
  for (const page of splitIntoPages(remaining, { objects: 500, bytes: 1 << 20, inlineBytes: deps.content.inlineBytes })) {
    const frames = await buildPutFrames(deps, page)
    for (const state of page) {
      const frame = frames.get(state.stack_id)!
      for (const stream of listReceivers(deps, matches, state.stack_id, live)) {
        const isNew = stream.queuePut(state.stack_id, frame, toStateKey(state))
        if (isNew && frame.skip !== null) skipped.push({ agentId: stream.agentId, skip: frame.skip })
      }
    }
  }
  // Not awaited: a locked status row must not delay the feed.
  void recordSkips(deps, skipped)
}

/** Live streams of a stack. If a stream's target was read again, it must still exist. */
function listReceivers(deps: PublisherDeps, matches: BatchMatches, stackId: string, live: ReadonlySet<string>): AgentStream[] {
  return [...deps.registry.getSubscribers(scopeKey('stack', stackId))].filter(
    (stream) =>
      stream.state === 'live' &&
      (matches.targets.get(stream)?.has(stackId) === true ? live.has(`${stream.agentId} ${stackId}`) : matches.stacks.has(stackId)),
  )
}

function queueDels(
  deps: PublisherDeps,
  matches: BatchMatches,
  states: readonly desiredState.StackState[],
  live: ReadonlySet<string>,
): void {
  const byId = new Map<string, desiredState.StackState>(states.map((state) => [state.stack_id, state]))
  for (const [stream, stackIds] of matches.targets) {
    for (const stackId of stackIds) {
      const state = byId.get(stackId)
      if (live.has(`${stream.agentId} ${stackId}`) && state?.is_deleted === false) continue
      deps.registry.unsubscribe(stream, scopeKey('stack', stackId))
      if (state === undefined) continue
      const reason = state.is_deleted ? 'stack_deleted' : 'untargeted'
      stream.queueDel(stackId, toWireFrame({ type: 'del', stack_id: state.stack_id, rev: state.rev, reason }))
    }
  }
}

function listStackStreams(deps: PublisherDeps, stackIds: ReadonlySet<string>): AgentStream[] {
  return [...stackIds].flatMap((id) => [...deps.registry.getSubscribers(scopeKey('stack', id))])
}

function addTarget(targets: BatchMatches['targets'], stream: AgentStream, stackId: string): void {
  const stackIds = targets.get(stream)
  if (stackIds === undefined) targets.set(stream, new Set([stackId]))
  else stackIds.add(stackId)
}

function addRefreshHint(hints: BatchMatches['hints'], stream: AgentStream, what: string, subscribers: number): void {
  const ofStream = hints.get(stream) ?? new Map<string, number>()
  hints.set(stream, ofStream.set(what, Math.max(ofStream.get(what) ?? 0, subscribers)))
}
