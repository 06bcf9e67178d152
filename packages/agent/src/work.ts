// What the agent does once it knows its cluster and its broker: follow, reconcile, watch, report. Composition only; each opening
// registers its closing beside it, and they are closed in reverse: first nothing new comes in, last the broker hears of it.
import type { StackId } from '@brokkr/contract/wire.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Lifecycle } from '@brokkr/runtime/lifecycle.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { type Loop, type RunningLoop, startLoop } from '@brokkr/runtime/loop.ts'
import { untilClusterAnswers } from './cluster.ts'
import type { AgentConfig } from './config.ts'
import { type Follow, startFollow } from './follow.ts'
import { Deployments } from './loops/deployments.ts'
import { heartbeatLoop } from './loops/heartbeat.ts'
import { resyncLoop } from './loops/resync.ts'
import type { Standing } from './loops/standing.ts'
import { type StatusLoop, statusLoop } from './loops/status.ts'
import type { AgentMetrics } from './metrics.ts'
import { ensureHashKey } from './reconcile/agent-state.ts'
import { CleanMarks } from './reconcile/clean-marks.ts'
import type { ReconcileDeps } from './reconcile/deps.ts'
import { type DriftWatch, startDriftWatch } from './reconcile/drift.ts'
import { MemberIndex } from './reconcile/member-index.ts'
import { Outbox } from './reconcile/outbox.ts'
import { StackParents } from './reconcile/stack-parents.ts'
import type { Session } from './session.ts'
import { version } from './version.ts'

export interface WorkDeps {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: AgentMetrics
  readonly onWaiting: (why: string) => void
  readonly lifecycle: Lifecycle
  readonly session: Session
  readonly kube: Kube
  readonly standing: Standing
}

export async function startWork(
  deps: WorkDeps,
  config: AgentConfig,
  namespace: string,
): Promise<{ follow: Follow; refreshMetrics: () => void }> {
  const { clock, log, metrics, session, kube, lifecycle, standing } = deps
  const { agent } = config
  const { agentId } = session
  const reconcile = await openReconcile(deps, config, namespace)
  const outbox = new Outbox({ metrics })
  const deployments: Deployments = new Deployments(
    { map: () => follow.map, drift: () => drift, reconcile, outbox, agentId, clock, log, metrics },
    { concurrency: agent.stack_concurrency, attemptMs: agent.attempt_seconds * 1000, retryMaxMs: agent.retry_max_seconds * 1000 },
  )
  await untilClusterAnswers(deps, () => loadInventories(reconcile, deployments, lifecycle.signal), lifecycle.signal)
  const status = statusLoop({
    ...deps,
    client: session.broker.client,
    agentId,
    outbox,
    follow: { summary: () => follow.summary(), restart: () => follow.restart() },
    everyMs: 1_000,
    digestMs: agent.digest_interval * 1000,
  })
  openStatus(deps, status, outbox)
  const everyMs = Math.min(agent.polling_interval, 30) * 1000
  open(deps, heartbeatLoop({ clock, log, metrics, kube, standing, client: session.broker.client, agentId, version, everyMs }), {
    immediately: true,
  })
  const drift: DriftWatch = startDriftWatch(
    { kube, clock, log, members: reconcile.members, clean: reconcile.clean },
    agentId,
    (stackId, key) => deployments.suspect(stackId as StackId, key),
  )
  lifecycle.onClose('drift', () => drift.stop())
  lifecycle.onClose('deployments', () => deployments.stop())
  open(deps, resyncLoop({ deployments, drift, everyMs: agent.resync_interval * 1000 }))
  const follow: Follow = startFollow(deps, followOptions(config), {
    onLook: (stackId) => deployments.look(stackId),
    onVerified: (list) => deployments.verified(list),
    onSession: (number, isNewEpoch) => {
      status.begin(number)
      if (isNewEpoch) outbox.tellAllAgain()
    },
  })
  lifecycle.onClose('follow', () => follow.stop())
  deployments.start()
  return { follow, refreshMetrics: () => refresh(metrics, outbox, reconcile) }
}

async function openReconcile(deps: WorkDeps, { agent }: AgentConfig, namespace: string): Promise<ReconcileDeps> {
  const { clock, kube, metrics, lifecycle, session } = deps
  const { agentId } = session
  const hashKey = await untilClusterAnswers(deps, () => ensureHashKey({ kube }, namespace, lifecycle.signal), lifecycle.signal)
  const parents = new StackParents(
    { kube, clock },
    { namespace, agentId, tooling: `brokkr/v${version}`, savesManifests: agent.save_manifests },
  )
  const policy = {
    allowedNamespaces: agent.allowed_namespaces,
    protectedNamespaces: [namespace, ...agent.protected_namespaces],
    deniedKinds: agent.denied_kinds,
  }
  const settings = {
    policy,
    defaultNamespace: 'default',
    adoption: agent.adoption,
    applyConcurrency: agent.apply_concurrency,
    dryRun: agent.dry_run,
    fieldValidation: agent.field_validation,
    crdWaitMs: agent.crd_wait_seconds * 1000,
    goneWaitMs: 5_000,
  }
  return { kube, clock, metrics, parents, members: new MemberIndex(), clean: new CleanMarks(), agentId, hashKey, settings }
}

async function loadInventories({ parents, members }: ReconcileDeps, deployments: Deployments, signal: AbortSignal): Promise<void> {
  for (const { stackId, parent } of await parents.all(signal)) {
    members.set(stackId, parent.set.members)
    if (parent.state) deployments.found(stackId as StackId, parent.state)
  }
}

const followOptions = ({ agent }: AgentConfig) => ({
  transport: agent.transport,
  pollMs: agent.polling_interval * 1000,
  deadMs: agent.stream_dead_seconds * 1000,
  transportRetryMs: agent.transport_retry_seconds * 1000,
})

function open({ clock, log, lifecycle }: WorkDeps, loop: Loop, options: { immediately?: boolean } = {}): RunningLoop {
  const running = startLoop({ clock, log }, loop, options)
  lifecycle.onClose(loop.name, () => running.stop())
  return running
}

/** What ended must be told soon; what is left when we stop, once more. */
function openStatus(deps: WorkDeps, status: StatusLoop, outbox: Outbox): void {
  const { clock, log, lifecycle } = deps
  const running = startLoop({ clock, log }, status)
  let timer: { cancel(): void } | null = null
  outbox.onNews(() => {
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

function refresh(metrics: AgentMetrics, outbox: Outbox, { members, parents }: ReconcileDeps): void {
  const phases = outbox.phases()
  for (const phase of ['applied', 'pending', 'failed', 'held', 'removed'] as const) metrics.stacks.set({ phase }, phases.get(phase) ?? 0)
  metrics.managed.set(members.size)
  metrics.unsaved.set(parents.unsavedCount)
}
