// The one loop of a process that reads the feed: woken by a notification or a commit of its own, and by a slow poll that
// would find everything by itself. Rows and the next cursor come from one statement, so nothing falls between them.
import { randomUUID } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { backoffDelayMs, jittered } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type pg from 'pg'
import * as changeLog from '../store/change-log.ts'
import { sqlOn } from '../store/db.ts'
import * as feedState from '../store/feed-state.ts'
import { oneTripOn } from '../store/one-trip.ts'
import type { LoadedState } from '../store/wanted.ts'
import { type Boots, isOfHistory } from './boots.ts'
import { parseSnapshot, printCursor, probesOf, type Snapshot } from './cursor.ts'
import type { Publisher } from './publish.ts'

/** What the last good poll knew; every use of a cursor is checked against it. */
export interface FeedView {
  readonly epoch: string
  readonly boots: Boots
  readonly cursorKey: Buffer
  readonly floorXid: bigint
  readonly cursor: Snapshot
  readonly cursorText: string
  readonly isStandby: boolean
  readonly polledAtMs: number
  /** How far back the log reaches; null: nothing was ever taken out of it. */
  readonly floorAgeSeconds: number | null
}
export interface FeedReader {
  /** A stack of which it is known that it was changed is read along with the rows that say so. */
  readonly wake: (stackId?: string) => void
  /** The history is doubted: a new epoch with the next poll, whatever the database says of itself. */
  readonly doubt: () => void
  /** null until the first poll. */
  readonly view: FeedView | null
  stop(): Promise<void>
}
export interface ReaderDeps {
  readonly connect: () => Promise<pg.Client>
  readonly publisher: Publisher
  readonly clock: Clock
  readonly log: Log
  readonly pollMs: () => number
  /** The first poll, or the first one of another history: from `start` on everything is read. */
  readonly onBegin: (start: Snapshot) => void
  /** The database's history broke (failover, restore): cursors of the old epoch are worth nothing any more. */
  readonly onNewEpoch: () => void
  /** The log was cleaned past what this process had read: what its followers missed is not known any more. */
  readonly onGone: () => void
  /** Makes a new epoch by compare-and-set. */
  readonly renewEpoch: (seen: string) => Promise<void>
  readonly onPolled: (poll: { byTimer: boolean; rows: number; seconds: number }) => void
}

/** A change waits for at most this long because of the one before it. */
const restMaxMs = 10

/** Made once: without a reason every wake-up would make an exception with its stack, for every commit of this process. */
const news = new Error('woken')

export function startReader(deps: ReaderDeps): FeedReader {
  const stopping = new AbortController()
  let client: pg.Client | null = null
  let view: FeedView | null = null
  let failures = 0
  let checkedAtMs = Number.NEGATIVE_INFINITY
  let tookMs = 0
  let isWoken = false
  let isDoubted = false
  let wakeSleeper: () => void = () => undefined

  let changed = new Set<string>()

  const wake = (stackId?: string) => {
    isWoken = true
    if (stackId !== undefined) changed.add(stackId)
    wakeSleeper()
  }
  const done = (async () => {
    while (!stopping.signal.aborted) {
      const byTimer = !isWoken
      const wasDoubted: boolean = isDoubted
      const ofStacks = changed
      isWoken = false
      isDoubted = false
      changed = new Set()
      try {
        const isNew = client === null
        client ??= await connectOrFail(deps, () => (client = null))
        const startedMs = deps.clock.monotonicMs()
        // Also when wake-ups never leave room for the timer: a floor or a history that changed must be noticed under load too.
        const isDue = startedMs - checkedAtMs >= deps.pollMs()
        // A standby that is one no longer was promoted under our eyes.
        const checks = isNew || wasDoubted || isDue || view?.isStandby === true
        const adopt = (begun: FeedView) => (view = begun)
        const polled = await pollOnce(deps, client, { before: view, checks, isDoubted: wasDoubted, changed: ofStacks, adopt })
        if (checks) checkedAtMs = startedMs
        if (polled === 'backwards') {
          // Time went back without any other sign: the next poll makes an epoch of it.
          isDoubted = true
          continue
        }
        view = polled.view
        tookMs = deps.clock.monotonicMs() - startedMs
        deps.onPolled({ byTimer, rows: polled.rows, seconds: tookMs / 1000 })
        failures = 0
      } catch (error) {
        failures += 1
        isDoubted ||= wasDoubted
        if (failures === 1) deps.log.warn('feed poll failed', { error: error as Error })
        await client?.end().catch(() => undefined)
        client = null
      }
      await pause(failures)
    }
    await client?.end().catch(() => undefined)
  })()

  /** A rest as long as the last poll, so that under load commits are read in larger batches instead of by more polls. */
  async function pause(failed: number): Promise<void> {
    await deps.clock.sleep(Math.min(restMaxMs, Math.max(1, Math.round(tookMs))))
    if (isWoken && failed === 0) return
    const delayMs = failed === 0 ? jittered(deps.pollMs(), 0.2) : backoffDelayMs({ baseMs: 250, maxMs: 5000, jitter: 'equal' }, failed)
    const woken = new AbortController()
    wakeSleeper = () => woken.abort(news)
    await deps.clock.sleep(delayMs, AbortSignal.any([woken.signal, stopping.signal])).catch(() => undefined)
  }

  return {
    wake,
    doubt: () => {
      isDoubted = true
      wake()
    },
    get view() {
      return view
    },
    stop: async () => {
      stopping.abort()
      wakeSleeper()
      await done
    },
  }
}

async function connectOrFail(deps: ReaderDeps, onLost: () => void): Promise<pg.Client> {
  const client = await deps.connect()
  client.on('error', onLost)
  return client
}

interface Poll {
  readonly before: FeedView | null
  readonly checks: boolean
  readonly isDoubted: boolean
  readonly changed: ReadonlySet<string>
  /** Another history begins: this is what is known of it from now on. */
  readonly adopt: (view: FeedView) => void
}

async function pollOnce(deps: ReaderDeps, client: pg.Client, poll: Poll): Promise<{ view: FeedView; rows: number } | 'backwards'> {
  const { before } = poll
  const sql = sqlOn(client)
  const known = before === null || poll.checks ? await checkHistory(deps, sql, poll) : before
  // The first poll reads no rows: nobody follows yet, and every stream starts with a read of its own.
  const from = before === null || before.epoch !== known.epoch ? null : before.cursor
  const read = from === null ? await currentSnapshot(sql) : await readSince(deps, client, from, poll.changed)
  // Renewed since history was last looked at: told as such, before the floor that came with it looks like a clean-up.
  if (read.epoch !== known.epoch || (read.boot ?? '') !== known.boots.boot) return pollOnce(deps, client, { ...poll, checks: true })
  const isOurs = before === null || from === null || isOfHistory(known.boots, { boot: before.boots.boot, snapshot: from })
  if (from !== null && !read.standby && (read.cursor.xmax < from.xmax || !isOurs)) return 'backwards'
  const isGone = from !== null && from.xmin < read.floorXid
  if (isGone) deps.onGone()
  const polledAtMs = deps.clock.monotonicMs()
  // A standby is no source of news: streams that are open grow stale.
  const place = read.standby
    ? { polledAtMs: before?.polledAtMs ?? polledAtMs, cursorText: '' }
    : { polledAtMs, cursorText: printCursor(known.cursorKey, { epoch: known.epoch, boot: known.boots.boot, snapshot: read.cursor }) }
  const view = { ...known, ...place, cursor: read.cursor, isStandby: read.standby }
  if (before !== null && before.epoch !== known.epoch) {
    // In this order: whoever is sent away and comes back at once must meet the new history.
    poll.adopt(view)
    deps.onNewEpoch()
  }
  if (read.standby) return { view, rows: 0 }
  if (from === null || isGone) deps.onBegin(read.cursor)
  await deps.publisher.publish(read.rows, { cursor: read.cursor, cursorText: view.cursorText, atMs: polledAtMs }, read.loaded)
  return { view, rows: read.rows.length }
}

type History = Pick<FeedView, 'epoch' | 'boots' | 'cursorKey' | 'floorXid' | 'floorAgeSeconds'>

async function checkHistory(deps: ReaderDeps, sql: ReturnType<typeof sqlOn>, { before, isDoubted }: Poll): Promise<History> {
  let state = await feedState.read(sql, {})
  // Somebody else may have renewed it since it was doubted here.
  const isDoubtful = isDoubted && before?.epoch === state.epoch
  if ((!state.is_same_history || isDoubtful) && !state.standby) {
    await deps.renewEpoch(state.epoch)
    state = await feedState.read(sql, {})
  }
  if (!state.is_same_boot) {
    await feedState.beginBoot(sql, { seen: state.boot, boot: randomUUID() })
    state = await feedState.read(sql, {})
  }
  const { epoch, cursor_key: cursorKey, floor_age_seconds: floorAgeSeconds } = state
  // Of a standby nobody needs to know: it issues no cursor.
  const boot = state.boot ?? ''
  const boots = before?.boots.boot === boot ? before.boots : await readBoots(sql, boot)
  return { epoch, boots, cursorKey, floorXid: BigInt(state.floor_xid), floorAgeSeconds }
}

async function readBoots(sql: ReturnType<typeof sqlOn>, boot: string): Promise<Boots> {
  const ended = await feedState.endedBoots(sql, {})
  return { boot, ended: new Map(ended.map((row) => [row.boot, BigInt(row.ended_xid)])) }
}

interface Read {
  readonly rows: changeLog.ChangeRow[]
  readonly cursor: Snapshot
  readonly standby: boolean
  readonly epoch: string
  readonly boot: string | null
  readonly floorXid: bigint
  /** Read after the rows, by the same connection. */
  readonly loaded: readonly LoadedState[]
}

const nothing = { xmax: String(2n ** 63n - 1n), in_flight: [] }

async function currentSnapshot(sql: ReturnType<typeof sqlOn>): Promise<Read> {
  return readOf(await changeLog.poll(sql, nothing))
}

async function readSince(deps: ReaderDeps, client: pg.Client, from: Snapshot, changed: ReadonlySet<string>): Promise<Read> {
  const probes = probesOf(from)
  const { sql, leave } = oneTripOn(client)
  const polling = changeLog.poll(sql, probes)
  // What cannot be loaded here is loaded in its place.
  const loading = deps.publisher.load(sql, changed)?.catch(() => [])
  void leave()
  const rows = await polling
  return rows.length > changeLog.pollRowsMax ? readPaged(client, probes) : { ...readOf(rows), loaded: (await loading) ?? [] }
}

/** A batch too large for one statement is paged inside one snapshot: there is no cursor inside it. */
async function readPaged(client: pg.Client, probes: { xmax: string; in_flight: string[] }): Promise<Read> {
  await client.query('begin isolation level repeatable read, read only')
  try {
    const rows: changeLog.ChangeRow[] = []
    let after = changeLog.beforeFirst
    for (;;) {
      const read = readOf(await changeLog.page(sqlOn(client), { ...probes, ...after }))
      rows.push(...read.rows)
      if (read.rows.length < changeLog.pollRowsMax) return { ...read, rows }
      after = changeLog.pageEnd(read.rows.at(-1)!)
      await nextTurn()
    }
  } finally {
    await client.query('commit')
  }
}

function readOf(rows: Awaited<ReturnType<typeof changeLog.poll>>): Read {
  const [first, ...others] = rows
  if (first === undefined) throw new Error('the feed statement returned no row')
  const { cursor, standby, epoch, boot, floor_xid: floor } = first
  if (cursor === null || standby === null || epoch === null || floor === null) throw new Error('the feed statement says nothing of itself')
  return { rows: others.map(changeOf), cursor: parseSnapshot(cursor), standby, epoch, boot, floorXid: BigInt(floor), loaded: [] }
}

/** Kept in the ring for minutes, a hundred thousand of them: nothing but what it says. */
const changeOf = ({ seq, xid, scope_kind, scope_id, object_kind, object_id, op, age_seconds }: changeLog.PolledRow): changeLog.ChangeRow =>
  ({ seq, xid: BigInt(xid ?? 0), scope_kind, scope_id, object_kind, object_id, op, age_seconds }) as changeLog.ChangeRow
