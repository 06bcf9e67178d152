// What the agent does once it knows its cluster and who it is: follow, reconcile, watch, report. Composition only; each opening
// registers its closing beside it, and they are closed in reverse: first nothing new comes in, last the broker hears of it.
import type { StackId } from '@brokkr/contract/wire.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import { uniform } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { toError } from '@brokkr/runtime/errors.ts'
import type { Lifecycle } from '@brokkr/runtime/lifecycle.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { type Loop, type RunningLoop, startLoop } from '@brokkr/runtime/loop.ts'
import { untilClusterAnswers } from './cluster.ts'
import type { AgentConfig } from './config.ts'
import { reconcileSettings } from './config-reconcile.ts'
import { type Follow, startFollow } from './follow.ts'
import { approvalsLoop } from './loops/approvals.ts'
import { Deployments } from './loops/deployments.ts'
import { type HealthDeps, healthLoop } from './loops/health.ts'
import { heartbeatLoop } from './loops/heartbeat.ts'
import { registrationsLoop } from './loops/registrations.ts'
import { resyncLoop } from './loops/resync.ts'
import type { Standing } from './loops/standing.ts'
import { type StatusLoop, statusLoop } from './loops/status.ts'
import { verifyLoop } from './loops/verify.ts'
import type { AgentMetrics } from './metrics.ts'
import { openMap, openSaver } from './open-map.ts'
import { openOperations } from './open-operations.ts'
import { namespacesOf } from './policy.ts'
import { CleanMarks } from './reconcile/clean-marks.ts'
import type { ReconcileDeps } from './reconcile/deps.ts'
import { type DriftWatch, startDriftWatch } from './reconcile/drift.ts'
import { MemberIndex } from './reconcile/member-index.ts'
import { Outbox } from './reconcile/outbox.ts'
import { PruneApprovals } from './reconcile/prune-approvals.ts'
import { StackParents } from './reconcile/stack-parents.ts'
import { Tenants } from './reconcile/tenants.ts'
import { refreshMetrics } from './refresh-metrics.ts'
import type { AgentSession } from './start-session.ts'
import { version } from './version.ts'
import { permittedKube } from './write-permit.ts'

export interface WorkDeps extends AgentSession {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: AgentMetrics
  readonly onWaiting: (why: string) => void
  readonly lifecycle: Lifecycle
  readonly kube: Kube
  readonly standing: Standing
}
export interface Work {
  /** Null until the broker has confirmed who we are. */
  readonly follow: () => Follow | null
  readonly refusedGenerators: () => readonly string[]
  readonly refreshMetrics: () => void
}

export async function startWork(deps: WorkDeps, config: AgentConfig, namespace: string): Promise<Work> {
  const { clock, log, metrics, kube, lifecycle, standing, agentId, broker, permit } = deps
  const { client } = broker
  const { agent } = config
  const reconcile = openReconcile(deps, config, namespace)
  const outbox = new Outbox({ metrics }, { count: agent.event_spool, bytes: agent.event_spool_bytes })
  const stacks = () => untilClusterAnswers(deps, () => reconcile.parents.all(lifecycle.signal), lifecycle.signal)
  const map = await openMap({ ...deps, outbox, stacks }, agent.state_dir)
  let follow: Follow | null = null
  const health = openHealth(deps, config, { reconcile, outbox, running: () => deployments.running() })
  const deployments: Deployments = new Deployments(
    {
      map: () => map,
      drift: () => drift,
      reconcile,
      permit,
      history: {
        get orphans() {
          return new Set(deps.own.facts?.orphans)
        },
        save: ({ epoch, orphans }) => deps.own.save({ orphans: [...orphans].toSorted(), ...(epoch === undefined ? {} : { epoch }) }),
      },
      outbox,
      agentId,
      clock,
      log,
      metrics,
      fightMs: () => agent.drift_fight_seconds * 1000,
      onEnded: (stackId) => health.touch(stackId),
    },
    { concurrency: agent.stack_concurrency, attemptMs: agent.attempt_seconds * 1000, retryMaxMs: agent.retry_max_seconds * 1000 },
  )
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
  openStatus(deps, status, outbox, saver.changed)
  const everyMs = Math.min(agent.polling_interval, 30) * 1000
  const facts = () => factsOf(config)
  const heartbeat = open(deps, heartbeatLoop({ clock, log, metrics, kube, standing, client, agentId, version, everyMs, facts }), {
    immediately: true,
  })
  const drift: DriftWatch = startDriftWatch(
    {
      kube,
      clock,
      log,
      members: reconcile.members,
      clean: reconcile.clean,
      namespaces: () => namespacesOf(reconcile.settings.policy),
      onSeen: (stackId) => health.touch(stackId as StackId),
    },
    agentId,
    (stackId, key) => deployments.suspect(stackId as StackId, key),
  )
  lifecycle.onClose('drift', () => drift.stop())
  lifecycle.onClose('deployments', () => deployments.stop())
  open(deps, resyncLoop({ deployments, drift, everyMs: agent.resync_interval * 1000 }))
  open(deps, verifyLoop({ deployments, everyMs: () => agent.verify_interval * 1000 }))
  const registrations = registrationsLoop({ client, log, generatorIds: agent.generator_ids, everyMs: 300_000 })
  deployments.start()
  deps.onPermit(() => deployments.permitChanged())
  // What stands is kept as it is from the first moment, whether or not the broker answers.
  deployments.lookAtAll()
  const begin = () => {
    const approvals = open(
      deps,
      approvalsLoop({ client, agentId, log, approvals: reconcile.approvals, deployments, map, follow: () => follow, everyMs: 300_000 }),
    )
    const operations = openOperations(
      { ...deps, reconcile, map, everyMs: agent.polling_interval * 1000, open: (loop) => open(deps, loop) },
      agent,
      namespace,
    )
    const asked: Record<string, readonly RunningLoop[]> = { agent: [heartbeat, approvals], ...operations }
    const wake = (what: string) => {
      for (const loop of asked[what] ?? []) loop.wake()
    }
    open(deps, registrations, { immediately: true })
    const handlers = {
      onLook: (stackId: StackId) => deployments.look(stackId),
      onVerified: (list: Parameters<Deployments['verified']>[0]) => deployments.verified(list),
      onSession: (number: number, isNewEpoch: boolean) => {
        status.begin(number)
        if (isNewEpoch) outbox.tellAllAgain()
        // What was asked for while nobody listened is asked for still.
        for (const what of Object.keys(asked)) wake(what)
      },
      onAsk: (what: string, spreadMs: number) => void clock.setTimer(uniform(0, spreadMs), () => wake(what)),
      onChanged: saver.changed,
    }
    follow = startFollow({ session: { agentId, broker }, clock, log, metrics }, followOptions(config), handlers, map)
    deps.keys.onChange(() => follow?.wake())
    lifecycle.onClose('follow', () => follow?.stop())
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

/** Starts with the broker; what happens to a stack before that waits for the first look. */
function openHealth(
  deps: WorkDeps,
  { agent }: AgentConfig,
  { reconcile, outbox, running }: { reconcile: ReconcileDeps; outbox: Outbox; running: HealthDeps['running'] },
): { touch: (stackId: StackId) => void } {
  const { clock, log, lifecycle, agentId, broker, kube } = deps
  const health = healthLoop({
    kube,
    agentId,
    clock,
    log,
    running,
    policy: () => reconcile.settings.policy,
    send: async (reports, signal) => {
      const body = { deployment_objects: [...reports] }
      await broker.client.updateHealthStatus({ params: { id: agentId }, body }, { signal })
    },
    event: (event) => outbox.event(event),
    everyMs: () => agent.deployment_health_interval * 1000,
    isEnabled: () => agent.deployment_health_enabled,
  })
  const loop = open(deps, health)
  let timer: { cancel(): void } | null = null
  lifecycle.onClose('health timer', () => timer?.cancel())
  return {
    touch: (stackId) => {
      health.touch(stackId)
      timer ??= clock.setTimer(health.pauseMs(), () => {
        timer = null
        loop.wake()
      })
    },
  }
}

function openReconcile(deps: WorkDeps, { agent }: AgentConfig, namespace: string): ReconcileDeps {
  const { clock, metrics, permit, agentId, hashKey } = deps
  // Whatever changes the cluster goes through the permit, at the moment it leaves.
  const kube = permittedKube(deps.kube, permit)
  const parents = new StackParents(
    { kube, clock },
    { namespace, agentId, tooling: `brokkr/v${version}`, savesManifests: agent.save_manifests },
  )
  const tenants = new Tenants(async (stop) => {
    const answer = await deps.broker.client.answer('getAssociatedStacks', { params: { id: agentId } }, { signal: stop })
    return answer.body
  })
  const known = { members: new MemberIndex(), clean: new CleanMarks(), approvals: new PruneApprovals() }
  return { kube, clock, metrics, parents, tenants, ...known, agentId, hashKey, settings: reconcileSettings(agent, namespace) }
}

async function loadInventories({ parents, members, tenants }: ReconcileDeps, deployments: Deployments, signal: AbortSignal): Promise<void> {
  for (const { stackId, parent } of await parents.all(signal)) {
    members.set(stackId, parent.set.members)
    if (parent.tenant) tenants.found(stackId, parent.tenant)
    if (parent.state) deployments.found(stackId as StackId, parent.state)
  }
}

const followOptions = ({ agent }: AgentConfig) => ({
  transport: agent.ws_force_rest ? ('poll' as const) : agent.transport,
  pollMs: agent.polling_interval * 1000,
  deadMs: agent.stream_dead_seconds * 1000,
  silentMs: agent.stream_silent_seconds * 1000,
  longPollMs: agent.long_poll_seconds * 1000,
  transportRetryMs: agent.transport_retry_seconds * 1000,
  refusedRetryMs: agent.refused_retry_seconds * 1000,
  snapshotMs: agent.snapshot_interval * 1000,
  reconnect: { baseMs: Math.min(500, agent.reconnect_max_seconds * 1000), maxMs: agent.reconnect_max_seconds * 1000 },
})

const factsOf = ({ agent }: AgentConfig): Record<string, unknown> => ({
  preset: agent.preset,
  policy: {
    allowed_namespaces: agent.allowed_namespaces,
    protected_namespaces: agent.protected_namespaces,
    denied_kinds: agent.denied_kinds,
    adoption: agent.adoption,
  },
  capabilities: ['stream', 'longpoll', 'poll', 'event_batches', 'telemetry'],
  work_order_types: agent.work_order_types,
})

function open({ clock, log, lifecycle }: WorkDeps, loop: Loop, options: { immediately?: boolean } = {}): RunningLoop {
  const running = startLoop({ clock, log }, loop, options)
  lifecycle.onClose(loop.name, () => running.stop())
  return running
}

/** What ended must be told soon; what is left when we stop, once more. */
function openStatus(deps: WorkDeps, status: StatusLoop, outbox: Outbox, onNews: () => void): void {
  const { clock, log, lifecycle } = deps
  const running = startLoop({ clock, log }, status)
  let timer: { cancel(): void } | null = null
  outbox.onNews(() => {
    onNews()
    timer ??= clock.setTimer(status.pauseMs(), () => {
      timer = null
      running.wake()
    })
  })
  lifecycle.onClose('status', async () => {
    timer?.cancel()
    await running.stop()
    if (!outbox.isEmpty) await status.run(AbortSignal.timeout(lastWordsMs))
  })
}

const lastWordsMs = 3_000
