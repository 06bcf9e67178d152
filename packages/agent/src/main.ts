// The agent as a program: configuration → probes → cluster → broker → what stands already → loops. Composition only; each
// opening registers its closing beside it.
import type { AgentId } from '@brokkr/contract/wire.ts'
import { BadKubeconfig } from '@brokkr/kube/kube-config.ts'
import { startAdminServer } from '@brokkr/runtime/admin-server.ts'
import { type Clock, systemClock } from '@brokkr/runtime/clock.ts'
import { loadConfig } from '@brokkr/runtime/config.ts'
import { ConfigError } from '@brokkr/runtime/config-error.ts'
import { Terminal } from '@brokkr/runtime/errors.ts'
import { createLifecycle, type Lifecycle } from '@brokkr/runtime/lifecycle.ts'
import { createLog, type Log } from '@brokkr/runtime/log.ts'
import { createMetrics, type Metrics } from '@brokkr/runtime/metrics.ts'
import { checkStart } from '@brokkr/runtime/start-checks.ts'
import { openCluster, untilClusterAnswers } from './cluster.ts'
import { type AgentConfig, agentTable, checkAgentConfig } from './config.ts'
import type { Follow } from './follow.ts'
import { Standing } from './loops/standing.ts'
import { agentMetrics } from './metrics.ts'
import { openBroker, signIn } from './session.ts'
import { version } from './version.ts'
import { startWork } from './work.ts'

/** Sections of other programs that share the file or the environment. */
const ignoredSections = ['broker', 'database', 'server', 'limits', 'metrics', 'pak', 'cors', 'telemetry', 'tasks', 'feed', 'cli']

/** `brokkr agent`: reads the configuration, serves until a signal ends it. */
export async function runAgent(options: { env: NodeJS.ProcessEnv; flags?: Record<string, unknown> }): Promise<void> {
  checkStart()
  try {
    const config = await loadConfig({
      table: agentTable,
      env: options.env,
      flags: options.flags ?? {},
      ignoredSections,
      check: checkAgentConfig,
    })
    const { agent, log: logging } = config.value
    const log = createLog({ name: 'brokkr-agent', level: logging.level, format: logging.format })
    const lifecycle = createLifecycle({ log }, { graceMs: agent.shutdown_seconds * 1000 })
    lifecycle.listenForSignals()
    await startAgent(config.value, { log, lifecycle, env: options.env }).catch((error: unknown) => {
      // A signal that came during the start ends it in good order.
      if (!lifecycle.signal.aborted) throw error
    })
    await lifecycle.closed
  } catch (error) {
    // One clear line, whatever failed: a configuration problem lists everything that is wrong.
    process.stderr.write(`brokkr agent did not start: ${error instanceof Error ? error.message : String(error)}\n`)
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
}
export interface AgentHandle {
  readonly agentId: AgentId
  readonly healthPort: number
  readonly follow: Follow
  readonly metrics: Metrics
  stop(): Promise<void>
}

/** Resolves when the agent is at work. Waits for the API server and the broker; what cannot become right by waiting throws. */
export async function startAgent(config: AgentConfig, { log, lifecycle, env, clock = systemClock }: AgentDeps): Promise<AgentHandle> {
  const { agent } = config
  const { signal } = lifecycle
  const metrics = createMetrics({ processMetrics: true })
  const standing = new Standing()
  const deps = { clock, log, metrics: agentMetrics(metrics), onWaiting: (why: string) => standing.starting(why) }
  // Probes come first, so that the process is seen alive while it waits for its neighbours.
  const host = agent.health_host ?? (agent.kubeconfig_path === null ? '0.0.0.0' : '127.0.0.1')
  const probes = await startAdminServer({ host, port: agent.health_port, ready: () => standing.notReady, metrics, log })
  lifecycle.onClose('probes', () => probes.close())
  const { kube, namespace } = await openCluster({ clock, env }, config)
  lifecycle.onClose('API server', () => kube.close())
  await untilClusterAnswers(deps, () => kube.discovery.refresh(signal), signal)
  const broker = await openBroker(config)
  lifecycle.onClose('broker', () => broker.close())
  const session = await signIn({ ...deps, broker }, config, signal)
  const work = await startWork({ ...deps, lifecycle, session, kube, standing }, config, namespace)
  metrics.beforeScrape(() => work.refreshMetrics())
  standing.starting(null)
  log.info('agent ready', { agent_id: session.agentId, namespace, version, port: probes.port })
  return { agentId: session.agentId, healthPort: probes.port, follow: work.follow, metrics, stop: () => lifecycle.close('asked to stop') }
}

if (import.meta.main) await runAgent({ env: process.env })
