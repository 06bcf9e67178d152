// The operator of data flows: configuration → cluster → definitions → Lease → controller → probes. Composition only.
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { dataFlowCrd, dataFlowCronCrd } from '@brokkr/contract/dataflow/crds.ts'
import { type Election, type Kube, type KubeObject, loadInCluster, loadKubeconfig, openKube, startElection, waitForCrd } from '@brokkr/kube'
import { startAdminServer } from '@brokkr/runtime/admin-server.ts'
import { type Clock, systemClock } from '@brokkr/runtime/clock.ts'
import { ConfigError, wrongConfigurationExitCode } from '@brokkr/runtime/config/config-error.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import { createLifecycle, type Lifecycle } from '@brokkr/runtime/lifecycle.ts'
import { createLog, type Log } from '@brokkr/runtime/logging/log.ts'
import { createMetrics, type Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import { checkStart } from '@brokkr/runtime/start-checks.ts'
import { version } from '../version.ts'
import { type OperatorConfig, readOperatorConfig } from './config.ts'
import { type FlowController, startFlowController } from './controller.ts'
import { podMonitorKind } from './desired/children.ts'
import { apiVersion, fieldManager } from './names.ts'
import { EnvironmentSource, toPodLabels, toProcessorEnv } from './processor-environment.ts'
import { startWebhook, type Webhook, type WebhookSettings } from './webhook-server.ts'

const leaseName = 'dataflow-operator.dataflow.io'
const lease = { durationMs: 15_000, fenceMs: 10_000, renewEveryMs: 2_000, retryEveryMs: 2_000 }
const graceMs = 20_000
const retryMs = 2_000

/** `brokkr dataflow operator`: serves until a signal ends it. A lost Lease ends it too. */
export async function runOperator(options: { readonly env: NodeJS.ProcessEnv }): Promise<void> {
  checkStart()
  try {
    const config = readOperatorConfig(options.env)
    const log = createLog({ name: 'brokkr-dataflow-operator', level: config.LOG_LEVEL })
    const lifecycle = createLifecycle({ log }, { graceMs })
    lifecycle.listenForSignals()
    await startOperator(config, { log, lifecycle, env: options.env })
    await lifecycle.closed
  } catch (error) {
    process.stderr.write(`brokkr dataflow operator ended: ${errorText(error)}\n`)
    process.exit(error instanceof ConfigError ? wrongConfigurationExitCode : 1)
  }
}

export interface OperatorDeps {
  readonly log: Log
  readonly lifecycle: Lifecycle
  readonly env: NodeJS.ProcessEnv
  readonly clock?: Clock
}

export interface OperatorHandle {
  readonly metricsPort: number
  readonly probePort: number
  /** Null while it is ready to act; else what it waits for. */
  readonly notReady: () => string | null
  readonly isLeader: () => boolean
  /** Null while no certificate is served, and without the webhook. */
  readonly webhookPort: () => number | null
}

/** Returns when the probes answer; the controller starts as soon as the definitions are installed. */
export async function startOperator(config: OperatorConfig, deps: OperatorDeps): Promise<OperatorHandle> {
  const { log, lifecycle, clock = systemClock } = deps
  const metrics = createMetrics({ processMetrics: true })
  let waitingFor: string | null = 'the start'
  let webhook: Webhook | undefined
  const findMissing = () => waitingFor ?? (config.WEBHOOK_ENABLED && webhook?.port() === null ? 'the certificate of the webhook' : null)
  const serve = async (port: number) => {
    const server = await startAdminServer({ port, host: config.OPERATOR_BIND_HOST, metrics, log, ready: findMissing })
    lifecycle.onClose(`port ${port}`, () => server.close())
    return server.port
  }
  const [metricsPort, probePort] = [await serve(config.OPERATOR_METRICS_PORT), await serve(config.OPERATOR_PROBE_PORT)]
  const { kube, namespace } = await openCluster(config, deps, clock)
  lifecycle.onClose('client', () => kube.close())
  const identity = `${hostname()}-${randomUUID().slice(0, 8)}`
  const election = config.OPERATOR_LEADER_ELECT
    ? startElection({ kube, clock, log }, { name: leaseName, namespace, identity, ...lease })
    : null
  if (election !== null) lifecycle.onClose('lease', () => election.stop())
  if (election !== null) endWithLease(election, lifecycle)
  const isLeader = () => election?.held() ?? true
  if (config.WEBHOOK_ENABLED) {
    webhook = startWebhook({ kube, clock, log, isLeader }, toWebhookSettings(config, namespace))
    lifecycle.onClose('webhook', () => webhook?.stop())
  }
  const start = async () => {
    if (config.OPERATOR_INSTALL_CRDS) await installCrds({ kube, clock }, lifecycle.signal)
    await untilServed(
      { kube, clock, log, namespace: config.WATCH_NAMESPACES[0], onProblem: (problem) => void (waitingFor = problem) },
      lifecycle.signal,
    )
    const controller = await openController(config, { ...deps, kube, clock, metrics, namespace, identity, election })
    lifecycle.onClose('controller', () => controller.stop())
    await controller.whenSynced(lifecycle.signal)
    waitingFor = null
    log.info('operator started', { metrics_port: metricsPort, probe_port: probePort, version })
  }
  start().catch((error: unknown) => {
    if (!lifecycle.signal.aborted) void lifecycle.close(`start failed: ${String(error)}`)
  })
  return { metricsPort, probePort, notReady: findMissing, isLeader, webhookPort: () => webhook?.port() ?? null }
}

function toWebhookSettings(config: OperatorConfig, namespace: string): WebhookSettings {
  const service = config.WEBHOOK_SERVICE_NAME
  return {
    host: config.OPERATOR_BIND_HOST,
    port: config.WEBHOOK_PORT,
    certDir: config.WEBHOOK_CERT_DIR,
    secret: { name: service, namespace },
    hosts: [`${service}.${namespace}.svc`, `${service}.${namespace}.svc.cluster.local`],
    configuration: config.WEBHOOK_CONFIGURATION_NAME,
  }
}

async function openController(
  config: OperatorConfig,
  deps: OperatorDeps & { kube: Kube; clock: Clock; metrics: Metrics; namespace: string; identity: string; election: Election | null },
): Promise<FlowController> {
  const { kube, clock, log, lifecycle, election } = deps
  const environment = new EnvironmentSource(
    { kube, clock, log },
    {
      image: config.PROCESSOR_IMAGE,
      ...toProcessorEnv(config, deps.env),
      labels: toPodLabels(config.PROCESSOR_POD_LABELS),
      deployment: config.OPERATOR_DEPLOYMENT_NAME,
      namespace: deps.namespace,
    },
  )
  lifecycle.onClose('environment', () => environment.stop())
  await environment.whenSynced(lifecycle.signal)
  if (environment.problem !== null) throw new Error(environment.problem)
  // Checked right before each request is sent: a process that lost the Lease writes nothing.
  const guarded = election === null ? kube : kube.with({ guard: () => election.assertHeld() })
  const controller = startFlowController(
    { ...deps, environment, kube: onlyWritesGuarded(kube, guarded), isLeader: () => election?.held() ?? true },
    {
      namespaces: config.WATCH_NAMESPACES,
      watchSecrets: config.WATCH_SECRETS,
      hasPodMonitors: await isServed(kube, podMonitorKind, lifecycle.signal),
      workers: config.MAX_CONCURRENT_RECONCILES,
      rolloutConcurrency: config.ROLLOUT_CONCURRENCY,
      timeoutMs: config.RECONCILE_TIMEOUT_SECONDS * 1000,
      pendingMs: config.RECONCILE_PENDING_REQUEUE_SECONDS * 1000,
      isProgressFromAnnotation: config.OPERATOR_PROGRESS_FROM_ANNOTATION,
      progressMs: config.OPERATOR_PROGRESS_SECONDS * 1000,
      allowLoopback: config.PROCESSOR_ALLOW_LOOPBACK,
    },
  )
  election?.onChange(() => controller.wakeAll())
  return controller
}

/** A standby reads, too. */
const onlyWritesGuarded = (kube: Kube, guarded: Kube): Kube => ({
  ...kube,
  create: (...call) => guarded.create(...call),
  replace: (...call) => guarded.replace(...call),
  patch: (...call) => guarded.patch(...call),
  apply: (...call) => guarded.apply(...call),
  delete: (...call) => guarded.delete(...call),
})

/** A term that has ended leaves passes under way; a new process starts from a clean state. */
function endWithLease(election: Election, lifecycle: Lifecycle): void {
  let hasLed = false
  election.onChange(() => {
    if (election.held()) hasLed = true
    else if (hasLed && !lifecycle.signal.aborted) void lifecycle.close('the Lease was lost')
  })
}

async function openCluster(config: OperatorConfig, deps: OperatorDeps, clock: Clock): Promise<{ kube: Kube; namespace: string }> {
  const isInCluster = config.KUBECONFIG === null && deps.env['KUBERNETES_SERVICE_HOST'] !== undefined
  const kubeConfig = isInCluster
    ? await loadInCluster({ env: deps.env })
    : await loadKubeconfig({ path: config.KUBECONFIG ?? undefined, env: deps.env })
  const kube = openKube(kubeConfig, { clock, env: deps.env, userAgent: `brokkr-dataflow-operator/${version}` })
  return { kube, namespace: config.OPERATOR_NAMESPACE ?? kubeConfig.namespace }
}

async function installCrds(deps: { kube: Kube; clock: Clock }, signal: AbortSignal): Promise<void> {
  for (const crd of [dataFlowCrd(), dataFlowCronCrd()] as unknown as KubeObject[]) {
    await deps.kube.apply(crd, { fieldManager, force: true, signal })
    await waitForCrd(deps, crd, { limitMs: 60_000, signal })
  }
}

async function isServed(kube: Kube, kind: { apiVersion: string; kind: string }, signal: AbortSignal): Promise<boolean> {
  try {
    await kube.discovery.resolve(kind, signal)
    return true
  } catch {
    signal.throwIfAborted()
    return false
  }
}

async function untilServed(
  deps: { kube: Kube; clock: Clock; log: Log; namespace: string | undefined; onProblem: (problem: string) => void },
  signal: AbortSignal,
): Promise<void> {
  for (let last = ''; ; ) {
    const problem = await findProblem(deps, signal)
    if (problem === null) return
    deps.onProblem(problem)
    if (problem !== last) deps.log.warn('operator waits', { problem })
    last = problem
    await deps.clock.sleep(retryMs, signal)
  }
}

async function findProblem(
  { kube, namespace }: { kube: Kube; namespace: string | undefined },
  signal: AbortSignal,
): Promise<string | null> {
  for (const kind of ['DataFlow', 'DataFlowCron']) {
    try {
      await kube.list({ apiVersion, kind }, { signal, pageSize: 1, metadataOnly: true, namespace })
    } catch (error) {
      signal.throwIfAborted()
      return `${kind} cannot be read: ${errorText(error)}`
    }
  }
  return null
}
