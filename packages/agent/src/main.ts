// The agent as a program: configuration → probes → cluster → Lease → what stands already → broker → loops. Composition only;
// each opening registers its closing beside it.
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import type { AgentId } from '@brokkr/contract/wire.ts'
import { BadKubeconfig } from '@brokkr/kube/kube-config.ts'
import { type Election, startElection } from '@brokkr/kube/lease.ts'
import { jsonPage, startAdminServer } from '@brokkr/runtime/admin-server.ts'
import { type Clock, systemClock } from '@brokkr/runtime/clock.ts'
import { ConfigError } from '@brokkr/runtime/config-error.ts'
import { Terminal } from '@brokkr/runtime/errors.ts'
import { followConfig } from '@brokkr/runtime/follow-config.ts'
import { createLifecycle, type Lifecycle } from '@brokkr/runtime/lifecycle.ts'
import { createLog, type Log } from '@brokkr/runtime/log.ts'
import { createMetrics, type Metrics } from '@brokkr/runtime/metrics.ts'
import { checkStart } from '@brokkr/runtime/start-checks.ts'
import { kubeLimits, openCluster, untilClusterAnswers } from './cluster.ts'
import { type AgentConfig, agentTable, checkAgentConfig } from './config.ts'
import type { Follow } from './follow.ts'
import { healthPage } from './health.ts'
import { anyHeap, type Heap, ownHeap } from './heap-room.ts'
import { countedKube } from './kube-metrics.ts'
import { liveSettings } from './live-settings.ts'
import { Standing } from './loops/standing.ts'
import { agentMetrics } from './metrics.ts'
import { ensureNamespace } from './reconcile/agent-state.ts'
import { startSession } from './start-session.ts'
import { version } from './version.ts'
import { startWork } from './work.ts'

/** Sections of other programs that share the file or the environment. */
const ignoredSections = ['broker', 'database', 'server', 'limits', 'metrics', 'pak', 'cors', 'telemetry', 'tasks', 'feed', 'cli']

/** `brokkr agent`: reads the configuration, serves until a signal ends it. */
export async function runAgent(options: { env: NodeJS.ProcessEnv; flags?: Record<string, unknown> }): Promise<void> {
  checkStart()
  const load = followConfig({ table: agentTable, env: options.env, flags: options.flags ?? {}, ignoredSections, check: checkAgentConfig })
  try {
    const config = await load()
    const { agent, log: logging } = config.value
    const log = createLog({ name: 'brokkr-agent', level: logging.level, format: logging.format })
    const lifecycle = createLifecycle({ log }, { graceMs: agent.shutdown_seconds * 1000 })
    lifecycle.listenForSignals()
    const reload = async () => (await load()).value
    const given = { log, lifecycle, env: options.env, heap: ownHeap(), reload }
    const handle = await startAgent(config.value, given).catch((error: unknown) => {
      // A signal that came during the start ends it in good order.
      if (!lifecycle.signal.aborted) throw error
      return null
    })
    await Promise.race([lifecycle.closed, ...(handle === null ? [] : [handle.failed])])
  } catch (error) {
    // One clear line, whatever failed: a configuration problem lists everything that is wrong.
    process.stderr.write(`brokkr agent ended: ${error instanceof Error ? error.message : String(error)}\n`)
    process.exit(isWrongConfiguration(error) ? 78 : 1)
  }
}

/** Starting it again would not help; somebody must change what it was given. */
const isWrongConfiguration = (error: unknown): boolean =>
  error instanceof ConfigError || error instanceof BadKubeconfig || (error instanceof Terminal && error.code === 'wrong_identity')

export interface AgentDeps {
  readonly log: Log
  readonly lifecycle: Lifecycle
  readonly env: NodeJS.ProcessEnv
  readonly clock?: Clock
  /** Left as it is where others live in the process too. */
  readonly heap?: Heap
  /** Reads the settings again; without it they stay as they were at the start. */
  readonly reload?: () => Promise<AgentConfig>
}
export interface AgentHandle {
  readonly agentId: AgentId
  readonly healthPort: number
  readonly follow: () => Follow | null
  readonly metrics: Metrics
  /** Rejects when the agent cannot go on: a key of somebody else, or another process in its place. */
  readonly failed: Promise<never>
  stop(): Promise<void>
}

/** Resolves when the agent is at work. Waits for the API server, the Lease and the broker; what waiting cannot mend throws. */
export async function startAgent(config: AgentConfig, given: AgentDeps): Promise<AgentHandle> {
  const { log, lifecycle, env, clock = systemClock, heap = anyHeap, reload = () => Promise.resolve(config) } = given
  const settings = liveSettings({ log }, config)
  const { agent } = settings.view
  const { signal } = lifecycle
  const metrics = createMetrics({ processMetrics: 'calm' })
  const standing = new Standing()
  const deps = { clock, log, metrics: agentMetrics(metrics), onWaiting: (why: string) => standing.starting(why), lifecycle, standing }
  const view = { follow: (): Follow | null => null, refused: (): readonly string[] => [] }
  const startedAtMs = clock.now()
  // Probes come first, so that the process is seen alive while it waits for its neighbours.
  const health = () =>
    healthPage({
      clock,
      standing,
      startedAtMs,
      transport: () => view.follow()?.transport ?? 'none',
      refusedGenerators: () => view.refused(),
    })
  const host = agent.health_host ?? (agent.kubeconfig_path === null ? '0.0.0.0' : '127.0.0.1')
  const probes = await startAdminServer({
    host,
    port: agent.health_port,
    ready: () => standing.notReady,
    metrics,
    log,
    pages: { '/health': () => jsonPage(health()) },
  })
  lifecycle.onClose('probes', () => probes.close())
  const { kube: direct, namespace } = await openCluster({ clock, env }, settings.view)
  settings.onChange(() => {
    log.level = settings.view.log.level
    direct.setLimits(kubeLimits(settings.view))
  })
  lifecycle.onClose('API server', () => direct.close())
  const kube = countedKube(deps, direct)
  await untilClusterAnswers(deps, () => kube.discovery.refresh(signal), signal)
  await untilClusterAnswers(deps, () => ensureNamespace(kube, namespace, signal), signal)
  const election = startElection(
    { kube: direct, clock, log },
    { name: 'brokkr-agent', namespace, identity: `${hostname()}_${randomUUID()}`, durationMs: agent.lease_seconds * 1000 },
  )
  lifecycle.onClose('lease', () => election.stop())
  await untilHeld({ clock, log, standing, election }, signal)
  const failed = Promise.withResolvers<never>()
  failed.promise.catch(() => undefined)
  const look = async () => {
    const found = await reload()
    settings.take(found)
    return found
  }
  const session = await startSession({ ...deps, kube, election, reload: look, fail: failed.reject }, settings.view, namespace)
  watchRivals({ lifecycle, election }, failed.reject)
  const work = await startWork({ ...deps, ...session, kube, settings, heap }, namespace)
  view.follow = work.follow
  view.refused = work.refusedGenerators
  metrics.beforeScrape(() => work.refreshMetrics())
  standing.starting(null)
  log.info('agent ready', { agent_id: session.agentId, namespace, version, port: probes.port })
  return {
    agentId: session.agentId,
    healthPort: probes.port,
    follow: work.follow,
    metrics,
    failed: failed.promise,
    stop: () => lifecycle.close('asked to stop'),
  }
}

const standbyToldMs = 1_000

/** Until then this process only answers its probes. */
async function untilHeld(deps: { clock: Clock; log: Log; standing: Standing; election: Election }, signal: AbortSignal): Promise<void> {
  deps.standing.starting('standby: another process holds the Lease')
  const told = deps.clock.setTimer(standbyToldMs, () => deps.log.info('standby', { holder: deps.election.rival }))
  try {
    await deps.election.whenHeld(signal)
  } finally {
    told.cancel()
  }
  deps.standing.starting('starting')
}

/** Somebody else has taken our place while we could not renew: this process ends, and its next start waits in line. */
function watchRivals(deps: { lifecycle: Lifecycle; election: Election }, fail: (error: Error) => void): void {
  const look = () => {
    const { rival } = deps.election
    if (rival !== null && !deps.lifecycle.signal.aborted) fail(new Terminal(`another process took the Lease: ${rival}`))
  }
  deps.election.onChange(look)
  look()
}

if (import.meta.main) await runAgent({ env: process.env })
