// What the agent does once it knows its cluster and who it is: follow, reconcile, watch, report. Composition only; each opening
// registers its closing beside it, and they are closed in reverse: first nothing new comes in, last the broker hears of it.
import type { StackId } from '@brokkr/contract/wire.ts'
import type { Member } from '@brokkr/kube/applyset.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import { uniform } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { toError } from '@brokkr/runtime/errors.ts'
import type { Lifecycle } from '@brokkr/runtime/lifecycle.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { type Loop, type LoopOptions, type RunningLoop, startLoop } from '@brokkr/runtime/loop.ts'
import { untilClusterAnswers } from './cluster.ts'
import type { FollowHandlers } from './follow/follow-stream.ts'
import type { WantedMap } from './follow/wanted-map.ts'
import { type Follow, startFollow } from './follow.ts'
import { factsOf, followOptions } from './follow-options.ts'
import { type Heap, HeapRoom } from './heap-room.ts'
import type { LiveSettings } from './live-settings.ts'
import { approvalsLoop } from './loops/approvals.ts'
import { Deployments } from './loops/deployments.ts'
import { heartbeatLoop } from './loops/heartbeat.ts'
import { registrationsLoop } from './loops/registrations.ts'
import { resyncLoop } from './loops/resync.ts'
import type { Standing } from './loops/standing.ts'
import { statusLoop } from './loops/status.ts'
import { verifyLoop } from './loops/verify.ts'
import type { AgentMetrics } from './metrics.ts'
import { openMap, openSaver } from './open-map.ts'
import { openOperations } from './open-operations.ts'
import { loadInventories, openReconcile } from './open-reconcile.ts'
import { openHealth, openInventory, openStatus } from './open-reports.ts'
import { changesWhatIsRight } from './pace-settings.ts'
import { namespacesOf } from './policy.ts'
import type { ReconcileDeps } from './reconcile/deps.ts'
import { type DriftWatch, startDriftWatch } from './reconcile/drift.ts'
import { Outbox } from './reconcile/outbox.ts'
import { refreshMetrics } from './refresh-metrics.ts'
import type { AgentSession } from './start-session.ts'
import { version } from './version.ts'

export interface WorkDeps extends AgentSession {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: AgentMetrics
  readonly onWaiting: (why: string) => void
  readonly lifecycle: Lifecycle
  readonly kube: Kube
  readonly standing: Standing
  readonly settings: LiveSettings
  readonly heap: Heap
}
export interface Work {
  /** Null until the broker has confirmed who we are. */
  readonly follow: () => Follow | null
  readonly refusedGenerators: () => readonly string[]
  readonly refreshMetrics: () => void
}

export async function startWork(deps: WorkDeps, namespace: string): Promise<Work> {
  const { clock, log, metrics, kube, lifecycle, standing, agentId, broker } = deps
  const { client } = broker
  const { agent } = deps.settings.view
  const reconcile = openReconcile(deps, namespace)
  const outbox = new Outbox({ metrics }, { count: agent.event_spool, bytes: agent.event_spool_bytes })
  const stacks = () => untilClusterAnswers(deps, () => reconcile.parents.all(lifecycle.signal), lifecycle.signal)
  const map = await openMap({ ...deps, outbox, stacks }, agent.state_dir)
  let follow: Follow | null = null
  const running = () => deployments.running()
  const onLooked = (stackId: StackId) => inventory.touch(stackId)
  let members: Pick<DriftWatch, 'seen'> | null = null
  const watched = (member: Member) => members?.seen(member)
  const health = openHealth(deps, (loop) => open(deps, loop), { reconcile, outbox, running, watched, onLooked })
  const onEnded = (stackId: StackId) => {
    health.touch(stackId)
    inventory.touch(stackId)
  }
  const deployments: Deployments = newDeployments(deps, { map, reconcile, outbox, drift: () => drift, onEnded })
  await untilClusterAnswers(deps, () => loadInventories(reconcile, deployments, lifecycle.signal), lifecycle.signal)
  const saver = openSaver({ ...deps, outbox }, map, agent.state_dir)
  lifecycle.onClose('state', () => saver.stop())
  const status = statusLoop({
    ...deps,
    client,
    outbox,
    follow: { summary: () => follow?.summary() ?? null, restart: (reason) => follow?.restart(reason) },
    everyMs: 1_000,
    digestMs: agent.digest_interval * 1000,
  })
  openStatus(deps, (loop) => start(deps, loop), status, outbox, saver.changed)
  const everyMs = () => Math.min(agent.polling_interval, 30) * 1000
  const facts = () => factsOf(deps.settings.view)
  const beating = heartbeatLoop({ clock, log, metrics, kube, standing, client, agentId, version, everyMs, facts })
  const heartbeat = open(deps, beating, { immediately: true })
  const drift = openDrift(deps, reconcile, deployments, onEnded)
  members = drift
  lifecycle.onClose('deployments', () => deployments.stop())
  open(deps, resyncLoop({ deployments, drift, everyMs: () => agent.resync_interval * 1000 }))
  open(deps, verifyLoop({ deployments, everyMs: () => agent.verify_interval * 1000 }))
  const inventory = openInventory(deps, (loop) => open(deps, loop), { reconcile, running, unwell: health.unwell })
  const registrations = registrationsLoop({ client, log, generatorIds: agent.generator_ids, everyMs: 300_000 })
  const room = new HeapRoom(deps, () => deployments.depth)
  lifecycle.onClose('heap', () => room.stop())
  deployments.start()
  deps.onPermit(() => deployments.permitChanged())
  deps.settings.onChange((paths) => {
    deployments.resize()
    if (!changesWhatIsRight(paths)) return
    drift.refresh()
    deployments.settingsChanged()
    room.tidy()
  })
  // What stands is kept as it is from the first moment, whether or not the broker answers.
  deployments.lookAtAll()
  const begin = () => {
    const approvals = open(
      deps,
      approvalsLoop({ client, agentId, log, approvals: reconcile.approvals, deployments, map, follow: () => follow, everyMs: 300_000 }),
    )
    open(deps, registrations, { immediately: true })
    const operations = openOperations({ ...deps, reconcile, map, open: (loop) => open(deps, loop) }, agent, namespace)
    const asked = { agent: [heartbeat, approvals], ...operations }
    const handlers = {
      onLook: (stackId: StackId) => {
        deployments.look(stackId)
        room.look()
      },
      onVerified: (list: Parameters<Deployments['verified']>[0]) => deployments.verified(list),
      onSession: (number: number, isNewEpoch: boolean) => {
        status.begin(number)
        inventory.tellAllAgain()
        if (isNewEpoch) outbox.tellAllAgain()
      },
      onChanged: saver.changed,
    }
    follow = openFollow(deps, map, asked, handlers)
  }
  deps.signedIn
    .then(begin)
    .catch((error: unknown) => lifecycle.signal.aborted || log.error('the broker is not followed', { error: toError(error) }))
  return {
    follow: () => follow,
    refusedGenerators: () => registrations.refused,
    refreshMetrics: () => refreshMetrics(metrics, { outbox, reconcile, map, clock }),
  }
}

interface Parts {
  readonly map: WantedMap
  readonly reconcile: ReconcileDeps
  readonly outbox: Outbox
  readonly drift: () => DriftWatch
  readonly onEnded: (stackId: StackId) => void
}

function newDeployments(deps: WorkDeps, { map, ...parts }: Parts): Deployments {
  const { clock, log, metrics, agentId, permit, own } = deps
  const { agent } = deps.settings.view
  const history = {
    get orphans() {
      return new Set(own.facts?.orphans)
    },
    save: ({ orphans, ...place }: { epoch?: string; boot?: string; orphans: ReadonlySet<string> }) =>
      own.save({ orphans: [...orphans].toSorted(), ...place }),
  }
  const fightMs = () => agent.drift_fight_seconds * 1000
  return new Deployments(
    { ...parts, map: () => map, permit, history, agentId, clock, log, metrics, fightMs },
    {
      concurrency: () => agent.stack_concurrency,
      attemptMs: () => agent.attempt_seconds * 1000,
      retryMaxMs: () => agent.retry_max_seconds * 1000,
    },
  )
}

function openDrift(deps: WorkDeps, reconcile: ReconcileDeps, deployments: Deployments, onSeen: (stackId: StackId) => void): DriftWatch {
  const { kube, clock, log, agentId, lifecycle } = deps
  const { members, clean } = reconcile
  const namespaces = () => namespacesOf(reconcile.settings.policy)
  const drift = startDriftWatch(
    { kube, clock, log, members, clean, namespaces, onSeen: (stackId) => onSeen(stackId as StackId) },
    agentId,
    (stackId, key) => deployments.suspect(stackId as StackId, key),
  )
  lifecycle.onClose('drift', () => drift.stop())
  return drift
}

/** `asked`: the loops that the broker may ask for by name. */
function openFollow(
  deps: WorkDeps,
  map: WantedMap,
  asked: Readonly<Record<string, readonly RunningLoop[]>>,
  handlers: Omit<FollowHandlers, 'onAsk'>,
): Follow {
  const { agentId, broker, clock, log, metrics, lifecycle } = deps
  const wake = (what: string) => {
    for (const loop of asked[what] ?? []) loop.wake()
  }
  const follow = startFollow(
    { session: { agentId, broker }, clock, log, metrics },
    followOptions(deps.settings.view),
    {
      ...handlers,
      onSession: (number, isNewEpoch) => {
        handlers.onSession(number, isNewEpoch)
        // What was asked for while nobody listened is asked for still.
        for (const what of Object.keys(asked)) wake(what)
      },
      onAsk: (what, spreadMs) => void clock.setTimer(uniform(0, spreadMs), () => wake(what)),
    },
    map,
  )
  deps.keys.onChange(() => follow.wake())
  lifecycle.onClose('follow', () => follow.stop())
  return follow
}

function open(deps: WorkDeps, loop: Loop, options: LoopOptions = {}): RunningLoop {
  const running = start(deps, loop, options)
  deps.lifecycle.onClose(loop.name, () => running.stop())
  return running
}

/** A changed interval counts from the next wait on. */
function start({ clock, log, settings }: WorkDeps, loop: Loop, options: LoopOptions = {}): RunningLoop {
  const running = startLoop({ clock, log }, loop, options)
  settings.onChange(() => running.retime())
  return running
}
