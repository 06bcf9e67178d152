// Closes streams: all before shutdown, half-open ones, and those with revoked credentials.
import type { Sql } from '@brokkr/postgres'
import { randomBetween } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import * as agents from '../../agents/store/agents.ts'
import type { FeedReader } from '../reader/reader.ts'
import type { Registry } from '../reader/registry.ts'
import type { AgentStream } from './agent-stream.ts'
import type { FrameStream } from './frame-stream.ts'
import { readFingerprints, type Watches } from './watch.ts'

// Closes all streams before shutdown, at a limited rate so that other brokers can take them over. Each gets a last bookmark and its own
// reconnect delay. The reader runs meanwhile, so no change is lost.

export interface DrainDeps {
  readonly clock: Clock
  readonly listStreams: () => FrameStream[]
  readonly reader: Pick<FeedReader, 'view'>
}
const stepMs = 100
const flushLimitMs = 5000
const reconnectMaxMs = 10_000

export async function drainStreams(deps: DrainDeps, { perSecond }: { perSecond: number }): Promise<void> {
  const perStep = Math.max(1, Math.ceil((perSecond * stepMs) / 1000))
  const streams = deps.listStreams()
  for (let at = 0; at < streams.length; at += perStep) {
    if (at > 0) await deps.clock.sleep(stepMs)
    const { view } = deps.reader
    for (const stream of streams.slice(at, at + perStep)) {
      if (view === null || view.isStandby) stream.end('drain', randomBetween(0, reconnectMaxMs))
      else stream.drain(view.cursorText, view.cursor, randomBetween(0, reconnectMaxMs))
    }
  }
  await waitUntilClosed(deps)
  for (const stream of deps.listStreams()) stream.end('drain', randomBetween(0, reconnectMaxMs))
}

/** Gives slow clients time to read their queued frames. */
async function waitUntilClosed({ clock, listStreams }: DrainDeps): Promise<void> {
  for (let waitedMs = 0; listStreams().length > 0 && waitedMs < flushLimitMs; waitedMs += stepMs) await clock.sleep(stepMs)
}

// Closes half-open streams. An agent with a stream also sends heartbeats, so the streams of an agent without a recent heartbeat (by
// database time) are closed. A wrong decision costs one resume.

export interface HalfOpenCheckDeps {
  readonly sql: Sql
  readonly clock: Clock
  readonly registry: Registry<AgentStream>
  readonly reader: Pick<FeedReader, 'getTrouble'>
}

export const closeHalfOpenStreams = (deps: HalfOpenCheckDeps, settings: { dead_seconds: number; far_end_check_seconds: number }): Loop => ({
  name: 'far-end-check',
  everyMs: settings.far_end_check_seconds * 1000,
  run: async () => {
    // While the reader is behind, heartbeats may be late too.
    if (deps.reader.getTrouble() !== null) return { let_go: 0 }
    const oldestMs = deps.clock.monotonicMs() - settings.dead_seconds * 1000
    const old = deps.registry.listSubscribers().filter((stream) => stream.openedAtMs < oldestMs)
    if (old.length === 0) return { let_go: 0 }
    const silent = await agents.unheardAmong(deps.sql, {
      ids: [...new Set(old.map(({ agentId }) => agentId))],
      seconds: settings.dead_seconds,
    })
    const silentIds = new Set(silent.map(({ id }) => id))
    for (const stream of old) if (silentIds.has(stream.agentId)) stream.destroy()
    return { let_go: silentIds.size }
  },
})

// Compares the credentials of all open streams and watches with the database every few minutes. The feed reports revocations at once;
// this check limits the effect of a missed change row.

interface RecheckDeps {
  readonly sql: Sql
  readonly registry: Registry<AgentStream>
  readonly watches: Pick<Watches, 'list'>
}

export const recheckCredentials = (deps: RecheckDeps, settings: { recheck_seconds: number }): Loop => ({
  name: 'recheck-keys',
  everyMs: settings.recheck_seconds * 1000,
  run: async () => {
    const revoked = [...(await findRevokedStreams(deps)), ...(await findRevokedWatches(deps))]
    for (const stream of revoked) stream.end('revoked', 0)
    return { revoked: revoked.length }
  },
})

async function findRevokedStreams({ sql, registry }: RecheckDeps) {
  const streams = registry.listSubscribers()
  if (streams.length === 0) return []
  const rows = await agents.listPakFingerprints(sql, { ids: [...new Set(streams.map(({ agentId }) => agentId))] })
  const fingerprints = new Map(rows.map(({ id, key_mark }) => [id, key_mark]))
  return streams.filter(({ agentId, pakFingerprint }) => (fingerprints.get(agentId) ?? null) !== pakFingerprint || pakFingerprint === null)
}

async function findRevokedWatches({ sql, watches }: RecheckDeps) {
  const openWatches = watches.list()
  const current = await readFingerprints(
    sql,
    openWatches.flatMap(({ credentialKeys }) => credentialKeys),
  )
  return openWatches.filter(({ credentialKeys, fingerprints }) =>
    credentialKeys.some((key) => !current.has(key) || current.get(key) !== fingerprints.get(key)),
  )
}
