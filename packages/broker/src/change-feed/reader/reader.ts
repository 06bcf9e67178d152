// Reads the change feed of one broker process: one loop, woken by notifications, by commits of this process, and by a slow poll that
// finds everything by itself. Rows and the next cursor come from one statement, so no row can fall between two polls.
import { randomUUID } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type PipelinedClient, toSql } from '@brokkr/postgres'
import { addJitter, backoffDelayMs } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { LoadedState } from '../../targeting/store/desired-state.ts'
import * as changeLog from '../store/change-log.ts'
import * as feedState from '../store/feed-state.ts'
import { type DatabaseSnapshot, isCursorOfEpoch, parseSnapshot, type ServerBoots, signCursor, toSnapshotProbes } from './cursor.ts'
import type { FeedEvents } from './feed-events.ts'
import type { Publisher } from './publisher.ts'

/** Result of the last successful poll; every cursor is checked against it. */
export interface FeedView {
  readonly epoch: string
  readonly boots: ServerBoots
  readonly cursorKey: Buffer
  readonly floorXid: bigint
  readonly cursor: DatabaseSnapshot
  readonly cursorText: string
  readonly isStandby: boolean
  readonly polledAtMs: number
  /** Age of the oldest row in the change log; null if no row was ever deleted. */
  readonly floorAgeSeconds: number | null
}
export type FeedTrouble = 'starting' | 'stale' | 'not primary'
export interface ReaderDeps {
  readonly connect: () => Promise<PipelinedClient>
  readonly publisher: Publisher
  readonly events: FeedEvents
  readonly clock: Clock
  readonly log: Log
  /** Replaces the epoch `seen` by compare-and-set. */
  readonly startNewEpoch: (seen: string) => Promise<void>
}
export interface ReaderOptions {
  readonly pollMs: number
  /** Without a successful poll for this long, the feed counts as stale. */
  readonly staleMs: number
}

/** Longest pause after a poll before the next one may start. */
const restMaxMs = 10

/** Limit of one step of a poll. Longer than the statement timeout of the server, so that only a half-open connection reaches it. */
const stepMsMax = 20_000
/** Time for a poll in progress when the broker stops. */
const stopMs = 2_000

/** Created once: otherwise each wake-up would create an exception with a stack trace. */
const wakeReason = new Error('woken')

export class FeedReader {
  readonly #deps: ReaderDeps
  readonly #options: ReaderOptions
  readonly #stopping = new AbortController()
  #running: Promise<void> | null = null
  #client: PipelinedClient | null = null
  #view: FeedView | null = null
  #failures = 0
  #checkedAtMs = Number.NEGATIVE_INFINITY
  #pollTookMs = 0
  #isWoken = false
  #isNewEpochRequested = false
  #changedStackIds = new Set<string>()
  #wakeSleeper: () => void = () => undefined

  constructor(deps: ReaderDeps, options: ReaderOptions) {
    this.#deps = deps
    this.#options = options
  }

  /** Null until the first poll. */
  get view(): FeedView | null {
    return this.#view
  }

  /** Why the feed cannot be trusted; null if it can. */
  getTrouble(): FeedTrouble | null {
    if (this.#view === null) return 'starting'
    if (this.#view.isStandby) return 'not primary'
    return this.getAgeMs() > this.#options.staleMs ? 'stale' : null
  }

  /** Time since the last successful poll. */
  getAgeMs(): number {
    return this.#view === null ? Number.POSITIVE_INFINITY : this.#deps.clock.monotonicMs() - this.#view.polledAtMs
  }

  start(): void {
    this.#running = this.#run()
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    this.#wakeSleeper()
    const limit = this.#deps.clock.setTimer(stopMs, () => this.#disconnect())
    await this.#running
    limit.cancel()
  }

  /** The state of a named stack is read in the same batch as its change rows. */
  readonly wake = (stackId?: string): void => {
    this.#isWoken = true
    if (stackId !== undefined) this.#changedStackIds.add(stackId)
    this.#wakeSleeper()
  }

  /** The next poll starts a new epoch, even if the database reports no break. */
  readonly requestNewEpoch = (): void => {
    this.#isNewEpochRequested = true
    this.wake()
  }

  async #run(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const isNewEpochRequested = this.#isNewEpochRequested
      this.#isNewEpochRequested = false
      try {
        if ((await this.#poll(isNewEpochRequested)) === 'backwards') {
          // Transaction ids went back without any other sign: the next poll starts a new epoch.
          this.#isNewEpochRequested = true
          continue
        }
        this.#failures = 0
      } catch (error) {
        this.#failures += 1
        this.#isNewEpochRequested ||= isNewEpochRequested
        if (this.#failures === 1) this.#deps.log.warn('feed poll failed', { error: error as Error })
        this.#disconnect()
      }
      await this.#pause()
    }
    this.#disconnect()
  }

  /** Ends a poll in progress. A half-open connection would answer neither the poll nor the end of the session. */
  #disconnect(): void {
    this.#client?.destroy()
    this.#client = null
  }

  async #poll(isNewEpochRequested: boolean): Promise<'done' | 'backwards'> {
    const { clock, events } = this.#deps
    const byTimer = !this.#isWoken
    const changedStackIds = this.#changedStackIds
    this.#isWoken = false
    this.#changedStackIds = new Set()
    const isNewConnection = this.#client === null
    this.#client ??= await this.#connect()
    const startedMs = clock.monotonicMs()
    // Also checked by time, because under load wake-ups may leave no room for the timer.
    const isDue = startedMs - this.#checkedAtMs >= this.#options.pollMs
    // A standby that became primary was promoted while this process was connected.
    const checksEpoch = isNewConnection || isNewEpochRequested || isDue || this.#view?.isStandby === true
    const adopt = (view: FeedView) => (this.#view = view)
    const startLimit = () => clock.setTimer(stepMsMax, () => this.#disconnect())
    let limit = startLimit()
    const onStep = () => {
      limit.cancel()
      limit = startLimit()
    }
    const result = await pollOnce(this.#deps, this.#client, {
      before: this.#view,
      checksEpoch,
      isNewEpochRequested,
      changedStackIds,
      adopt,
      onStep,
    }).finally(() => limit.cancel())
    if (checksEpoch) this.#checkedAtMs = startedMs
    if (result === 'backwards') return result
    this.#view = result.view
    this.#pollTookMs = clock.monotonicMs() - startedMs
    events.emit('polled', { byTimer, rows: result.rows, seconds: this.#pollTookMs / 1000 })
    return 'done'
  }

  async #connect(): Promise<PipelinedClient> {
    const client = await this.#deps.connect()
    client.on('error', () => {
      if (this.#client === client) this.#client = null
    })
    return client
  }

  /** Rests as long as the last poll took, so that under load commits are read in larger batches instead of by more polls. */
  async #pause(): Promise<void> {
    const { clock } = this.#deps
    await clock.sleep(Math.min(restMaxMs, Math.max(1, Math.round(this.#pollTookMs))))
    if (this.#isWoken && this.#failures === 0) return
    const backoff = { baseMs: 250, maxMs: 5000, jitter: 'equal' } as const
    const delayMs = this.#failures === 0 ? addJitter(this.#options.pollMs, 0.2) : backoffDelayMs(backoff, this.#failures)
    const woken = new AbortController()
    this.#wakeSleeper = () => woken.abort(wakeReason)
    await clock.sleep(delayMs, AbortSignal.any([woken.signal, this.#stopping.signal])).catch(() => undefined)
  }
}

interface Poll {
  readonly before: FeedView | null
  readonly checksEpoch: boolean
  readonly isNewEpochRequested: boolean
  readonly changedStackIds: ReadonlySet<string>
  /** Makes the view of a new epoch current before streams are closed. */
  readonly adopt: (view: FeedView) => void
  /** Called after each answer: a large batch is read in many pages. */
  readonly onStep: () => void
}

async function pollOnce(deps: ReaderDeps, client: PipelinedClient, poll: Poll): Promise<{ view: FeedView; rows: number } | 'backwards'> {
  const { before } = poll
  const sql = toSql(client)
  const state = before === null || poll.checksEpoch ? await checkEpoch(deps, sql, poll) : before
  poll.onStep()
  // The first poll reads no rows: there are no subscribers yet, and every stream starts with its own read.
  const from = before === null || before.epoch !== state.epoch ? null : before.cursor
  const batch = from === null ? await readCurrentSnapshot(sql) : await readSince(deps, client, from, poll)
  // The epoch changed after it was checked. Handle that first: the new floor would look like lost rows.
  if (batch.epoch !== state.epoch || (batch.boot ?? '') !== state.boots.boot) return pollOnce(deps, client, { ...poll, checksEpoch: true })
  const isOfEpoch = before === null || from === null || isCursorOfEpoch(state.boots, { boot: before.boots.boot, snapshot: from })
  if (from !== null && !batch.standby && (batch.cursor.xmax < from.xmax || !isOfEpoch)) return 'backwards'
  const hasLostRows = from !== null && from.xmin < batch.floorXid
  if (hasLostRows) deps.events.emit('rowsLost')
  const polledAtMs = deps.clock.monotonicMs()
  // A standby publishes nothing; open streams become stale.
  const position = batch.standby
    ? { polledAtMs: before?.polledAtMs ?? polledAtMs, cursorText: '' }
    : { polledAtMs, cursorText: signCursor(state.cursorKey, { epoch: state.epoch, boot: state.boots.boot, snapshot: batch.cursor }) }
  const view = { ...state, ...position, cursor: batch.cursor, isStandby: batch.standby }
  if (before !== null && before.epoch !== state.epoch) {
    // In this order: an agent whose stream is closed and that reconnects at once must find the new epoch.
    poll.adopt(view)
    deps.events.emit('newEpoch')
  }
  if (batch.standby) return { view, rows: 0 }
  if (from === null || hasLostRows) deps.events.emit('readingStarted', batch.cursor)
  await deps.publisher.publish(batch.rows, { cursor: batch.cursor, cursorText: view.cursorText, atMs: polledAtMs }, batch.loaded)
  return { view, rows: batch.rows.length }
}

type EpochState = Pick<FeedView, 'epoch' | 'boots' | 'cursorKey' | 'floorXid' | 'floorAgeSeconds'>

async function checkEpoch(deps: ReaderDeps, sql: ReturnType<typeof toSql>, { before, isNewEpochRequested }: Poll): Promise<EpochState> {
  let state = await feedState.read(sql, {})
  // Another process may have started the requested epoch already.
  const isRequested = isNewEpochRequested && before?.epoch === state.epoch
  if ((!state.is_same_history || isRequested) && !state.standby) {
    await deps.startNewEpoch(state.epoch)
    state = await feedState.read(sql, {})
  }
  if (!state.is_same_boot) {
    await feedState.beginBoot(sql, { seen: state.boot, boot: randomUUID() })
    state = await feedState.read(sql, {})
  }
  const { epoch, cursor_key: cursorKey, floor_age_seconds: floorAgeSeconds } = state
  // A standby has no boot of its own and issues no cursors.
  const boot = state.boot ?? ''
  const boots = before?.boots.boot === boot ? before.boots : await readBoots(sql, boot)
  return { epoch, boots, cursorKey, floorXid: BigInt(state.floor_xid), floorAgeSeconds }
}

async function readBoots(sql: ReturnType<typeof toSql>, boot: string): Promise<ServerBoots> {
  const ended = await feedState.listEndedBoots(sql, {})
  return { boot, ended: new Map(ended.map((row) => [row.boot, BigInt(row.ended_xid)])) }
}

interface ReadBatch {
  readonly rows: changeLog.ChangeRow[]
  readonly cursor: DatabaseSnapshot
  readonly standby: boolean
  readonly epoch: string
  readonly boot: string | null
  readonly floorXid: bigint
  /** States of changed stacks, read after the rows on the same connection. */
  readonly loaded: readonly LoadedState[]
}

const noRowsProbes = { xmax: String(2n ** 63n - 1n), in_flight: [] }

async function readCurrentSnapshot(sql: ReturnType<typeof toSql>): Promise<ReadBatch> {
  return toReadBatch(await changeLog.poll(sql, noRowsProbes))
}

async function readSince(
  deps: ReaderDeps,
  client: PipelinedClient,
  from: DatabaseSnapshot,
  { changedStackIds, onStep }: Poll,
): Promise<ReadBatch> {
  const probes = toSnapshotProbes(from)
  // Both statements are pipelined: the states are read right after the rows.
  const sql = toSql(client)
  const polling = changeLog.poll(sql, probes)
  // If this load fails, the publisher loads the states itself.
  const loading = deps.publisher.loadStates(sql, changedStackIds)?.catch(() => [])
  const rows = await polling
  return rows.length > changeLog.pollRowsMax ? readPaged(client, probes, onStep) : { ...toReadBatch(rows), loaded: (await loading) ?? [] }
}

/** Reads a batch that is too large for one statement in pages inside one transaction: there is no cursor inside a batch. */
async function readPaged(client: PipelinedClient, probes: { xmax: string; in_flight: string[] }, onStep: () => void): Promise<ReadBatch> {
  await client.query('begin isolation level repeatable read, read only')
  try {
    const rows: changeLog.ChangeRow[] = []
    let after = changeLog.beforeFirst
    for (;;) {
      const page = toReadBatch(await changeLog.page(toSql(client), { ...probes, ...after }))
      onStep()
      rows.push(...page.rows)
      if (page.rows.length < changeLog.pollRowsMax) return { ...page, rows }
      after = changeLog.pageEnd(page.rows.at(-1)!)
      await nextTurn()
    }
  } finally {
    await client.query('commit')
  }
}

function toReadBatch(rows: Awaited<ReturnType<typeof changeLog.poll>>): ReadBatch {
  const [first, ...others] = rows
  if (first === undefined) throw new Error('the poll statement returned no row')
  const { cursor, standby, epoch, boot, floor_xid: floor } = first
  if (cursor === null || standby === null || epoch === null || floor === null)
    throw new Error('the first row of the poll statement has no cursor or epoch')
  return { rows: others.map(toChangeRow), cursor: parseSnapshot(cursor), standby, epoch, boot, floorXid: BigInt(floor), loaded: [] }
}

/** Copies only the needed columns: the ring buffer keeps up to 100,000 rows for minutes. */
const toChangeRow = ({
  seq,
  xid,
  scope_kind,
  scope_id,
  object_kind,
  object_id,
  op,
  age_seconds,
}: changeLog.PolledRow): changeLog.ChangeRow =>
  ({ seq, xid: BigInt(xid ?? 0), scope_kind, scope_id, object_kind, object_id, op, age_seconds }) as changeLog.ChangeRow
