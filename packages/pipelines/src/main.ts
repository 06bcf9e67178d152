// The pipelines program: configuration → cluster → definitions → Lease → controller → hooks → probes. Composition only.
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { PIPELINE } from '@brokkr/contract/pipelines/fields.ts'
import { createRecorder, type Election, type Kube, loadInCluster, loadKubeconfig, openKube, startElection } from '@brokkr/kube'
import { startAdminServer } from '@brokkr/runtime/admin-server.ts'
import { type Clock, systemClock } from '@brokkr/runtime/clock.ts'
import { ConfigError, wrongConfigurationExitCode } from '@brokkr/runtime/config/config-error.ts'
import { loadConfig } from '@brokkr/runtime/config/load-config.ts'
import { createLifecycle, type Lifecycle } from '@brokkr/runtime/lifecycle.ts'
import { createLog, type Log } from '@brokkr/runtime/logging/log.ts'
import { createMetrics, type Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import { DecisionStore } from './approvals/decision-store.ts'
import { checkPipelinesConfig, type PipelinesConfig, pipelinesTable, toControllerSettings, toHooksSettings } from './config.ts'
import { type PipelinesController, startPipelinesController } from './controller/controller.ts'
import { findCrdProblem, installCrds } from './controller/installed-crd.ts'
import { electedLeadership, soleLeadership } from './controller/leadership.ts'
import { type PublicLease, watchPublicLease, withoutPublicController } from './controller/public-lease.ts'
import { type HooksServer, startHooks } from './hooks/server.ts'
import { openStrategies } from './open-strategies.ts'

const ignoredSections = ['broker', 'database', 'server', 'limits', 'metrics', 'pak', 'cors', 'telemetry', 'tasks', 'feed', 'cli', 'agent']
const LEASE = 'brokkr-pipelines'
const CRD_RETRY_MS = 5_000

/** `brokkr pipelines`: reads the configuration, serves until a signal ends it. */
export async function runPipelines(options: { env: NodeJS.ProcessEnv; flags?: Record<string, unknown> }): Promise<void> {
  try {
    const input = { table: pipelinesTable, env: options.env, flags: options.flags ?? {}, ignoredSections, check: checkPipelinesConfig }
    const { value: config } = await loadConfig(input)
    const log = createLog({ name: 'brokkr-pipelines', level: config.log.level, format: config.log.format })
    const lifecycle = createLifecycle({ log }, { graceMs: config.pipelines.shutdown_seconds * 1000 })
    lifecycle.listenForSignals()
    await startPipelines(config, { log, lifecycle, env: options.env })
    await lifecycle.closed
  } catch (error) {
    process.stderr.write(`brokkr pipelines ended: ${error instanceof Error ? error.message : String(error)}\n`)
    process.exit(error instanceof ConfigError ? wrongConfigurationExitCode : 1)
  }
}

export interface PipelinesDeps {
  readonly log: Log
  readonly lifecycle: Lifecycle
  readonly env: NodeJS.ProcessEnv
  readonly clock?: Clock
}

export interface PipelinesHandle {
  readonly probePort: number
  readonly metricsPort: number
  /** Null until the caches are complete. */
  readonly hooksPort: () => number | null
  /** Null while it is ready to act; else what it waits for. */
  readonly notReady: () => string | null
}

/** Returns when the probes answer; the controller starts as soon as the definitions are right. */
export async function startPipelines(config: PipelinesConfig, deps: PipelinesDeps): Promise<PipelinesHandle> {
  const { log, lifecycle, clock = systemClock } = deps
  const { pipelines } = config
  const metrics = createMetrics({ prefix: 'brokkr_pipelines_', processMetrics: true })
  let waitingFor: string | null = 'the start'
  let hooksPort: number | null = null
  const serve = async (port: number) => {
    const server = await startAdminServer({ port, host: pipelines.bind_host, metrics, log, ready: () => waitingFor })
    lifecycle.onClose(`port ${port}`, () => server.close())
    return server.port
  }
  const [metricsPort, probePort] = [await serve(pipelines.metrics_port), await serve(pipelines.health_probe_port)]
  const { kube, namespace } = await openManagement(pipelines, deps, clock)
  lifecycle.onClose('client', () => kube.close())
  const start = async () => {
    if (pipelines.install_crds) await installCrds({ kube, clock }, lifecycle.signal)
    await untilCrdIsRight({ kube, clock, log, onProblem: (problem) => void (waitingFor = problem) }, lifecycle.signal)
    const publicLease = watchPublicLease({ kube, clock, log }, namespace)
    lifecycle.onClose('public lease', () => publicLease.stop())
    const controller = await startController(config, { kube, clock, log, metrics, lifecycle, namespace, publicLease, env: deps.env })
    await controller.records.whenSynced(lifecycle.signal)
    const hooks = await openHooks(config, { kube, clock, log, metrics, namespace }, controller)
    lifecycle.onClose('hooks', () => hooks.close())
    hooksPort = hooks.port
    waitingFor = publicLease.problem
    publicLease.onChange(() => void (waitingFor = publicLease.problem))
  }
  start().catch((error: unknown) => {
    if (!lifecycle.signal.aborted) void lifecycle.close(`start failed: ${String(error)}`)
  })
  return { probePort, metricsPort, hooksPort: () => hooksPort, notReady: () => waitingFor }
}

async function startController(
  config: PipelinesConfig,
  deps: Pick<PipelinesDeps, 'log' | 'lifecycle' | 'env'> & {
    kube: Kube
    clock: Clock
    metrics: Metrics
    namespace: string
    publicLease: PublicLease
  },
): Promise<PipelinesController> {
  const { kube, clock, log, lifecycle } = deps
  const { pipelines } = config
  const identity = `${hostname()}-${randomUUID().slice(0, 8)}`
  const election: Election | null = pipelines.leader_elect
    ? startElection({ kube, clock, log }, { name: LEASE, namespace: deps.namespace, identity, durationMs: pipelines.lease_seconds * 1000 })
    : null
  if (election !== null) lifecycle.onClose('lease', () => election.stop())
  const strategies = await openStrategies(config, deps)
  lifecycle.onClose('strategies', () => strategies.close())
  const own = election === null ? soleLeadership(identity) : electedLeadership(election)
  const leadership = withoutPublicController(own, deps.publicLease)
  const controller = startPipelinesController(
    { ...deps, leadership, strategies: strategies.list, brokers: strategies.brokers },
    toControllerSettings(config),
  )
  lifecycle.onClose('controller', () => controller.stop())
  election?.onChange(() => controller.wakeAll())
  deps.publicLease.onChange(() => controller.wakeAll())
  return controller
}

async function openHooks(
  config: PipelinesConfig,
  deps: { kube: Kube; clock: Clock; log: Log; metrics: Metrics; namespace: string },
  controller: PipelinesController,
): Promise<HooksServer> {
  const { tls_cert_file: certFile, tls_key_file: keyFile, vouching_keys: keys } = config.pipelines
  const tls =
    certFile === null || keyFile === null ? null : { cert: await readFile(certFile, 'utf8'), key: await readFile(keyFile, 'utf8') }
  const vouchingKeys = keys.map((key) => Buffer.from(key.reveal()))
  const recorder = createRecorder(deps, { component: 'brokkr-pipelines' })
  return startHooks(
    {
      ...deps,
      records: controller.records,
      decisions: new DecisionStore(deps),
      wake: (key) => controller.wake(key),
      explain: (key) => controller.explain(key),
      preview: (key, signal) => controller.preview(key, signal),
      warn: ({ namespace, name, uid }, reason, message) =>
        recorder.record({ ...PIPELINE, namespace, name, uid }, { type: 'Warning', reason, message }),
    },
    toHooksSettings(config, { namespace: deps.namespace, tls, vouchingKeys }),
  )
}

async function openManagement(
  pipelines: PipelinesConfig['pipelines'],
  deps: PipelinesDeps,
  clock: Clock,
): Promise<{ kube: Kube; namespace: string }> {
  const isInCluster = pipelines.kubeconfig_path === null && deps.env['KUBERNETES_SERVICE_HOST'] !== undefined
  const config = isInCluster
    ? await loadInCluster({ env: deps.env })
    : await loadKubeconfig({ path: pipelines.kubeconfig_path ?? undefined, env: deps.env })
  return {
    kube: openKube(config, { clock, env: deps.env, userAgent: 'brokkr-pipelines' }),
    namespace: pipelines.namespace ?? config.namespace,
  }
}

/** While the definition would lose run numbers the program acts on nothing. */
async function untilCrdIsRight(
  deps: { kube: Kube; clock: Clock; log: Log; onProblem: (problem: string) => void },
  signal: AbortSignal,
): Promise<void> {
  for (let last = ''; ; ) {
    const problem = await findCrdProblem(deps.kube, signal).catch((error: unknown) => `the API server does not answer: ${String(error)}`)
    if (problem === null) return
    deps.onProblem(problem)
    if (problem !== last) deps.log.warn('controller not started', { problem })
    last = problem
    await deps.clock.sleep(CRD_RETRY_MS, signal)
  }
}
