// The agent's follower and its reports, without a cluster, against a real broker: what it holds, how its streams ended, what lists it
// believed.
import type { StackId } from '@brokkr/contract/wire.ts'
import { type Clock, systemClock } from '@brokkr/runtime/clock.ts'
import { silentLog as log } from '@brokkr/runtime/logging/log.ts'
import { startLoop } from '@brokkr/runtime/loop.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import type { TestAgent } from '@brokkr/testing/broker.ts'
import { openBrokerHttp } from '../connection/broker-http.ts'
import { type BrokerSync, type BrokerSyncOptions, createBrokerSync } from '../connection/broker-sync.ts'
import { readManifest } from '../desired-state/cached-manifest.ts'
import type { VerifiedSnapshot } from '../desired-state/snapshot.ts'
import { SyncState } from '../desired-state/sync-state.ts'
import { agentMetrics } from '../metrics.ts'
import { Outbox } from '../reporting/outbox.ts'
import { statusLoop } from '../reporting/status-loop.ts'
import { closeAfter } from './scripted-broker.ts'

export interface RealFollow {
  readonly follow: BrokerSync
  readonly verified: VerifiedSnapshot[]
  readonly looked: StackId[]
  /** Receives the reports for the broker. */
  readonly outbox: Outbox
  /** Stack → rev and object, as the map has it. */
  wanted(): Map<string, { rev: number; objectId: string | null }>
  /** What runs, as text. */
  textOf(stackId: string): string | null
  /** How streams have ended so far. */
  ends(how: string): Promise<number>
  stop(): Promise<void>
}

/** Short intervals in the proportions of the real ones. */
export const shortTimes: BrokerSyncOptions = {
  transport: 'auto',
  pollMs: 200,
  deadMs: 5_000,
  silentMs: 5_000,
  longPollMs: 2_000,
  transportRetryMs: 60_000,
  refusedRetryMs: 100,
  snapshotMs: 3_600_000,
  reconnect: { baseMs: 20, maxMs: 500 },
}

export async function followBroker(
  url: string,
  { agent, pak }: TestAgent,
  change: { options?: Partial<BrokerSyncOptions>; clock?: Clock; digestMs?: number; map?: SyncState; hasHeart?: boolean } = {},
): Promise<RealFollow> {
  const clock = change.clock ?? systemClock
  const numbers = createMetrics()
  const metrics = agentMetrics(numbers)
  const options = {
    url,
    userAgent: 'brokkr-agent/test',
    timeoutMs: 5_000,
    pak: () => pak,
    caFile: null,
    serverName: null,
    pin: null,
    client: null,
  }
  const broker = await openBrokerHttp(options)
  const [verified, looked]: [VerifiedSnapshot[], StackId[]] = [[], []]
  const map = change.map ?? new SyncState()
  const session = { agentId: agent.id, broker }
  const follow = createBrokerSync({ session, clock, log, metrics }, { ...shortTimes, ...change.options }, map)
  const outbox = new Outbox({ metrics })
  const status = statusLoop({
    client: broker.client,
    agentId: agent.id,
    outbox,
    sync: follow,
    clock,
    log,
    metrics,
    everyMs: 100,
    digestMs: change.digestMs ?? 3_600_000,
  })
  follow.start({
    onReconcile: (id) => void looked.push(id),
    onVerified: (list) => void verified.push(list),
    onSession: (number) => status.begin(number),
    onRefresh: () => undefined,
    onChanged: () => undefined,
  })
  const reports = startLoop({ clock, log }, status)
  outbox.onNews(() => reports.retime())
  const beat = () => void broker.client.recordHeartbeat({ params: { id: agent.id } }).catch(() => undefined)
  const heart = change.hasHeart === false ? undefined : setInterval(beat, 150)
  let isStopped = false
  const stop = async () => {
    if (isStopped) return
    isStopped = true
    clearInterval(heart)
    await reports.stop()
    await follow.stop()
    await broker.close()
  }
  closeAfter(stop)
  return {
    follow,
    verified,
    looked,
    outbox,
    wanted: () =>
      new Map(
        [...map.desired.stacks.values()].map(({ stackId, rev, object }) => [stackId as string, { rev, objectId: object?.id ?? null }]),
      ),
    textOf: (stackId) => {
      const object = map.desired.stacks.get(stackId as StackId)?.object
      return object ? readManifest(object) : null
    },
    ends: async (how) => Number(new RegExp(`_ends_total\\{how="${how}"\\} (\\d+)`).exec(await numbers.text())?.[1] ?? 0),
    stop,
  }
}
