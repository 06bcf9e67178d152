// The agent program: configuration → probes → cluster → Lease → identity → work. Each root registers its own stop.
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import type { AgentId } from '@brokkr/contract/wire.ts'
import { BadKubeconfig, type Election, type Kube, startElection } from '@brokkr/kube'
import { type AdminServer, jsonPage, startAdminServer } from '@brokkr/runtime/admin-server.ts'
import { type Clock, systemClock } from '@brokkr/runtime/clock.ts'
import { ConfigError, wrongConfigurationExitCode } from '@brokkr/runtime/config/config-error.ts'
import { watchConfig } from '@brokkr/runtime/config/watch-config.ts'
import { Terminal } from '@brokkr/runtime/errors.ts'
import { createLifecycle, type Lifecycle } from '@brokkr/runtime/lifecycle.ts'
import { createLog, type Log } from '@brokkr/runtime/logging/log.ts'
import { createMetrics, type Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import { checkStart } from '@brokkr/runtime/start-checks.ts'
import { connectCluster } from './cluster.ts'
import { type AgentConfig, agentTable, checkAgentConfig } from './config.ts'
import { startSession } from './identity/start-session.ts'
import { createLiveSettings } from './live-settings.ts'
import { agentMetrics } from './metrics.ts'
import { AgentConditions } from './reporting/agent-conditions.ts'
import { HealthPage } from './reporting/health-page.ts'
import { startWork } from './start-subsystems.ts'
import { version } from './version.ts'

/** Sections of other programs in a shared file or environment. */
const ignoredSections = ['broker', 'database', 'server', 'limits', 'metrics', 'pak', 'cors', 'telemetry', 'tasks', 'feed', 'cli']

/** `brokkr agent`: reads the configuration and runs until a signal ends it. */
export async function runAgent(options: { env: NodeJS.ProcessEnv; flags?: Record<string, unknown> }): Promise<void> {
  checkStart()
  const load = watchConfig({ table: agentTable, env: options.env, flags: options.flags ?? {}, ignoredSections, check: checkAgentConfig })
  try {
    const config = await load()
    const { agent, log: logging } = config.value
    const log = createLog({ name: 'brokkr-agent', level: logging.level, format: logging.format })
    const lifecycle = createLifecycle({ log }, { graceMs: agent.shutdown_seconds * 1000 })
    lifecycle.listenForSignals()
    const reload = async () => (await load()).value
    const handle = await startAgent(config.value, { log, lifecycle, env: options.env, reload }).catch((error: unknown) => {
      // A signal during the start is a normal stop.
      if (!lifecycle.signal.aborted) throw error
      return null
    })
    await Promise.race([lifecycle.closed, ...(handle === null ? [] : [handle.failed])])
  } catch (error) {
    // One line: a configuration error lists all problems.
    process.stderr.write(`brokkr agent ended: ${error instanceof Error ? error.message : String(error)}\n`)
    process.exit(isWrongConfiguration(error) ? wrongConfigurationExitCode : 1)
  }
}

/** A restart does not help until an operator changes the configuration. */
const isWrongConfiguration = (error: unknown): boolean =>
  error instanceof ConfigError || error instanceof BadKubeconfig || (error instanceof Terminal && error.code === 'wrong_identity')

export interface AgentDeps {
  readonly log: Log
  readonly lifecycle: Lifecycle
  readonly env: NodeJS.ProcessEnv
  readonly clock?: Clock
  /** Reads the settings again; without it they keep their first values. */
  readonly reload?: () => Promise<AgentConfig>
}
export interface AgentHandle {
  readonly agentId: AgentId
  readonly healthPort: number
  readonly metrics: Metrics
  /** Rejects when the agent cannot continue: the PAK belongs to another agent, or another process took the Lease. */
  readonly failed: Promise<never>
  stop(): Promise<void>
}

/** Resolves when the agent is ready. Waits for the API server, the Lease and the broker; throws errors that waiting cannot fix. */
export async function startAgent(config: AgentConfig, deps: AgentDeps): Promise<AgentHandle> {
  const { log, lifecycle, env, clock = systemClock, reload = () => Promise.resolve(config) } = deps
  const settings = createLiveSettings({ log }, config)
  const metrics = createMetrics({ processMetrics: 'calm' })
  const conditions = new AgentConditions()
  const page = new HealthPage({ clock, conditions })
  const onWaiting = (why: string) => conditions.setStartProblem(why)
  const shared = { clock, log, metrics: agentMetrics(metrics), onWaiting, lifecycle, conditions, settings, env }
  const probes = await startProbes({ ...shared, registry: metrics, page })
  const { kube, direct, namespace } = await connectCluster(shared)
  const election = await acquireLease({ ...shared, kube: direct }, namespace)
  const failure = Promise.withResolvers<never>()
  failure.promise.catch(() => undefined)
  const reloadSettings = async () => {
    const reloaded = await reload()
    settings.take(reloaded)
    return reloaded
  }
  const session = await startSession({ ...shared, kube, election, reload: reloadSettings, fail: failure.reject }, settings.view, namespace)
  failOnRival(lifecycle, election, failure.reject)
  const work = await startWork({ ...shared, ...session, kube }, namespace)
  page.connect(work)
  metrics.beforeScrape(() => work.refreshMetrics())
  conditions.setStartProblem(null)
  log.info('agent ready', { agent_id: session.agentId, namespace, version, port: probes.port })
  return {
    agentId: session.agentId,
    healthPort: probes.port,
    metrics,
    failed: failure.promise,
    stop: () => lifecycle.close('asked to stop'),
  }
}

interface ProbeDeps {
  readonly log: Log
  readonly lifecycle: Lifecycle
  readonly conditions: AgentConditions
  readonly settings: { readonly view: AgentConfig }
  readonly registry: Metrics
  readonly page: HealthPage
}

/** Started first, so that the process passes its liveness probe while it waits for the API server and the broker. */
async function startProbes({ log, lifecycle, conditions, settings, registry, page }: ProbeDeps): Promise<AdminServer> {
  const { agent } = settings.view
  const probes = await startAdminServer({
    host: agent.health_host ?? (agent.kubeconfig_path === null ? '0.0.0.0' : '127.0.0.1'),
    port: agent.health_port,
    ready: () => conditions.notReadyReason,
    metrics: registry,
    log,
    pages: { '/health': () => jsonPage(page.render()) },
  })
  lifecycle.onClose('probes', () => probes.close())
  return probes
}

interface LeaseDeps {
  readonly clock: Clock
  readonly log: Log
  readonly lifecycle: Lifecycle
  readonly conditions: AgentConditions
  readonly settings: { readonly view: AgentConfig }
  readonly kube: Kube
}

/** A standby that becomes the leader within this time is not logged. */
const standbyLogMs = 1_000

/** Waits for the Lease; until then the process only serves its probes. */
async function acquireLease({ clock, log, lifecycle, conditions, settings, kube }: LeaseDeps, namespace: string): Promise<Election> {
  const durationMs = settings.view.agent.lease_seconds * 1000
  const identity = `${hostname()}_${randomUUID()}`
  const election = startElection({ kube, clock, log }, { name: 'brokkr-agent', namespace, identity, durationMs })
  lifecycle.onClose('lease', () => election.stop())
  conditions.setStartProblem('standby: another process holds the Lease')
  const timer = clock.setTimer(standbyLogMs, () => log.info('standby', { holder: election.rival }))
  try {
    await election.whenHeld(lifecycle.signal)
  } finally {
    timer.cancel()
  }
  conditions.setStartProblem('starting')
  return election
}

/** If another process took the Lease during a renewal failure, this process ends and its next start waits as standby. */
function failOnRival(lifecycle: Lifecycle, election: Election, fail: (error: Error) => void): void {
  const check = () => {
    const { rival } = election
    if (rival !== null && !lifecycle.signal.aborted) fail(new Terminal(`another process took the Lease: ${rival}`))
  }
  election.onChange(check)
  check()
}

if (import.meta.main) await runAgent({ env: process.env })
