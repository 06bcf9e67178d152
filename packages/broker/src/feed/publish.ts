// From rows to frames: which streams follow what changed, the state as it is now, one shared buffer per stack. It acts on
// state, never on the content of a row, and a failure before the frames are queued leaves the cursor where it was.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { RevisionTexts } from '../revision-texts.ts'
import type { ChangeRow } from '../store/change-log.ts'
import type { Sql } from '../store/sql.ts'
import * as wanted from '../store/wanted.ts'
import type { AgentStream } from './agent-stream.ts'
import type { Snapshot } from './cursor.ts'
import { type ContentLimits, markOf, pagesOf, putFrames, wireFrame } from './frames.ts'
import { lookFrame, lookOf, resubscribeMarks } from './looks.ts'
import { type Registry, scopeKey } from './registry.ts'
import type { Ring } from './ring.ts'
import { type SkippedStack, tellSkips } from './skips.ts'

export interface Publisher {
  /** The number the next batch with rows will get; a starting stream notes it before its first read. */
  readonly nextBatch: number
  /** Hands a started stream over: its noted stacks are loaded with the next batch, and from then on it is live. */
  adopt(stream: AgentStream): void
  /** Loads, of stacks that were just changed, those that somebody here follows. */
  load(sql: Sql, stackIds: ReadonlySet<string>): Promise<wanted.LoadedState[]> | null
  /** `loaded`: what was read of these stacks after the rows were, so that it need not be read again. */
  publish(rows: readonly ChangeRow[], read: Published, loaded?: readonly wanted.LoadedState[]): Promise<void>
}
export interface Published {
  readonly cursor: Snapshot
  readonly cursorText: string
  readonly atMs: number
}
export interface PublisherDeps {
  readonly sql: Sql
  readonly clock: Clock
  readonly texts: RevisionTexts
  readonly log: Log
  readonly registry: Registry<AgentStream>
  readonly ring: Ring
  readonly content: ContentLimits
  /** Rows for this process and its task loops: credentials that changed, work that is due. */
  readonly onControl: (row: ChangeRow) => void
  readonly onTask: (row: ChangeRow) => void
  readonly onAnyRow: (row: ChangeRow) => void
  /** A new object was queued for those who follow it, so long after it was made. */
  readonly onWritten: (ageSeconds: number) => void
  /** Everything up to here was queued. */
  readonly onPublished: (read: Published) => void
}

interface Matched {
  /** Streams whose pair with a stack must be read again. */
  readonly pairs: Map<AgentStream, Set<string>>
  /** Stacks whose state changed and that some live stream follows. */
  readonly stacks: Set<string>
  /** What streams should look at, and over how long they should spread it. */
  readonly looks: Map<AgentStream, Map<string, number>>
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
    load: (sql, stackIds) => {
      const followed = stackIds.size > loadedMax ? [] : [...stackIds].filter((id) => deps.registry.of(scopeKey('stack', id)).size > 0)
      return followed.length === 0 ? null : wanted.statesWithContent(sql, { stack_ids: followed, inline_bytes: deps.content.inlineBytes })
    },
    publish: async (rows, read, loaded = []) => {
      // One synchronous step: a stream that starts now either finds the batch in the ring or is subscribed already.
      const matched = match(deps, rows)
      if (rows.length > 0) deps.ring.append({ number: nextBatch++, at: read.atMs, rows, cursor: read.cursor })
      const adopted = waiting.filter((stream) => stream.state === 'starting')
      waiting = []
      for (const stream of adopted) takeOver(stream, matched)
      const touched = () => new Set([...matched.pairs.keys(), ...matched.looks.keys(), ...followersOf(deps, matched.stacks), ...adopted])
      try {
        await deliver(deps, matched, loaded)
      } catch (error) {
        for (const stream of touched()) stream.flush()
        // The cursor stays where it was, so these rows come again; what streams noted must come again with them.
        for (const stream of adopted) putBack(stream, matched)
        waiting.push(...adopted)
        throw error
      }
      for (const stream of touched()) stream.bookmark(read.cursorText, read.cursor)
      tellWritten(deps, rows, matched, read)
      deps.onPublished(read)
    },
  }
}

function tellWritten(deps: PublisherDeps, rows: readonly ChangeRow[], matched: Matched, read: Published): void {
  const sinceRead = (deps.clock.monotonicMs() - read.atMs) / 1000
  for (const { object_kind, scope_id, age_seconds } of rows)
    if (object_kind === 'deployment_object' && age_seconds !== null && matched.stacks.has(scope_id)) deps.onWritten(age_seconds + sinceRead)
}

function match(deps: PublisherDeps, rows: readonly ChangeRow[]): Matched {
  const matched: Matched = { pairs: new Map(), stacks: new Set(), looks: new Map() }
  for (const row of rows) {
    deps.onAnyRow(row)
    if (row.scope_kind === 'control') deps.onControl(row)
    else if (row.scope_kind === 'task') deps.onTask(row)
    const followers = deps.registry.of(scopeKey(row.scope_kind, row.scope_id))
    for (const stream of followers) noteRow(stream, row, matched, followers.size)
  }
  return matched
}

function noteRow(stream: AgentStream, row: ChangeRow, matched: Matched, followers: number): void {
  const stackId = row.scope_kind === 'stack' ? row.scope_id : row.object_kind === 'target' ? row.object_id : null
  const look = stackId === null ? lookOf(row) : null
  if (look !== null) addLook(matched.looks, stream, look, followers)
  if (stackId === null) return
  if (stream.state === 'starting') stream.noted.add(stackId)
  else if (row.scope_kind === 'stack') matched.stacks.add(stackId)
  else addPair(matched.pairs, stream, stackId)
}

function takeOver(stream: AgentStream, matched: Matched): void {
  for (const stackId of stream.noted) addPair(matched.pairs, stream, stackId)
  stream.noted.clear()
  stream.state = 'live'
}

function putBack(stream: AgentStream, matched: Matched): void {
  if (stream.state !== 'live') return
  for (const stackId of matched.pairs.get(stream) ?? []) stream.noted.add(stackId)
  stream.state = 'starting'
}

/** More at once are worth a read of their own, by pages. */
const loadedMax = 4

async function deliver(deps: PublisherDeps, matched: Matched, loaded: readonly wanted.LoadedState[]): Promise<void> {
  // Subscribed before the load: a change that commits after the load then finds its way as a later row.
  for (const [stream, stackIds] of matched.pairs) for (const id of stackIds) deps.registry.subscribe(stream, scopeKey('stack', id))
  const paired = new Set([...matched.pairs.values()].flatMap((ids) => [...ids]))
  // What is followed only from now on must be loaded from now on.
  const ahead = loaded.filter(({ stack_id }) => matched.stacks.has(stack_id) && !paired.has(stack_id))
  const stackIds = new Set([...matched.stacks, ...paired])
  for (const { stack_id } of ahead) stackIds.delete(stack_id)
  const live = await livePairs(deps.sql, matched.pairs)
  const open = stackIds.size === 0 ? [] : await wanted.statesOf(deps.sql, { stack_ids: [...stackIds] })
  const states = [...ahead, ...open]
  await resubscribeMarks(
    deps,
    [...matched.looks].flatMap(([stream, looks]) => (looks.has('agent') ? [stream] : [])),
  )
  await queuePuts(deps, matched, states, live)
  queueDels(deps, matched, states, live)
  for (const [stream, looks] of matched.looks) for (const [what, spreadMs] of looks) stream.queue(`look:${what}`, lookFrame(what, spreadMs))
}

async function livePairs(sql: Sql, pairs: Matched['pairs']): Promise<ReadonlySet<string>> {
  const asked = [...pairs].flatMap(([stream, ids]) => [...ids].map((id) => [stream.agentId, id] as const))
  if (asked.length === 0) return new Set()
  const rows = await wanted.livePairs(sql, { agent_ids: asked.map(([agent]) => agent), stack_ids: asked.map(([, stack]) => stack) })
  return new Set(rows.map((row) => `${row.agent_id} ${row.stack_id}`))
}

async function queuePuts(
  deps: PublisherDeps,
  matched: Matched,
  states: readonly wanted.StackState[],
  live: ReadonlySet<string>,
): Promise<void> {
  const wantedStates = states.filter((state) => !state.is_deleted)
  const skipped: SkippedStack[] = []
  for (const page of pagesOf(wantedStates, { objects: 500, bytes: 1 << 20, inlineBytes: deps.content.inlineBytes })) {
    const frames = await putFrames(deps, page)
    for (const state of page) {
      const frame = frames.get(state.stack_id)!
      for (const stream of receivers(deps, matched, state.stack_id, live)) {
        const isNews = stream.queuePut(state.stack_id, frame, markOf(state))
        if (isNews && frame.skip !== null) skipped.push({ agentId: stream.agentId, skip: frame.skip })
      }
    }
  }
  // Not waited for: a row that somebody has locked must not hold up the feed.
  void tellSkips(deps, skipped)
}

/** Live streams of a stack whose pair was not read again, or was and is there. */
function receivers(deps: PublisherDeps, matched: Matched, stackId: string, live: ReadonlySet<string>): AgentStream[] {
  return [...deps.registry.of(scopeKey('stack', stackId))].filter(
    (stream) =>
      stream.state === 'live' &&
      (matched.pairs.get(stream)?.has(stackId) === true ? live.has(`${stream.agentId} ${stackId}`) : matched.stacks.has(stackId)),
  )
}

function queueDels(deps: PublisherDeps, matched: Matched, states: readonly wanted.StackState[], live: ReadonlySet<string>): void {
  const byId = new Map<string, wanted.StackState>(states.map((state) => [state.stack_id, state]))
  for (const [stream, stackIds] of matched.pairs) {
    for (const stackId of stackIds) {
      const state = byId.get(stackId)
      if (live.has(`${stream.agentId} ${stackId}`) && state?.is_deleted === false) continue
      deps.registry.unsubscribe(stream, scopeKey('stack', stackId))
      if (state === undefined) continue
      const reason = state.is_deleted ? 'stack_deleted' : 'untargeted'
      stream.queueDel(stackId, wireFrame({ type: 'del', stack_id: state.stack_id, rev: state.rev, reason }))
    }
  }
}

function followersOf(deps: PublisherDeps, stackIds: ReadonlySet<string>): AgentStream[] {
  return [...stackIds].flatMap((id) => [...deps.registry.of(scopeKey('stack', id))])
}

function addPair(pairs: Matched['pairs'], stream: AgentStream, stackId: string): void {
  const found = pairs.get(stream)
  if (found === undefined) pairs.set(stream, new Set([stackId]))
  else found.add(stackId)
}

function addLook(looks: Matched['looks'], stream: AgentStream, what: string, spreadMs: number): void {
  const found = looks.get(stream) ?? new Map<string, number>()
  looks.set(stream, found.set(what, Math.max(found.get(what) ?? 0, spreadMs)))
}
