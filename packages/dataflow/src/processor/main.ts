// Composition root of the processor: spec → checkpoint → probes → pipeline. Exit codes: 0 ended, 1 failed, 2 invalid start, 3 fenced.
import { randomUUID } from 'node:crypto'
import { UnreadableCheckpoint } from '@brokkr/contract/dataflow/checkpoint.ts'
import type { FlowKind } from '@brokkr/contract/dataflow/spec/types.ts'
import { loadInCluster, loadKubeconfig, openKube } from '@brokkr/kube'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { wrongConfigurationExitCode } from '@brokkr/runtime/config/config-error.ts'
import { errorText, toError } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { checkStart } from '@brokkr/runtime/start-checks.ts'
import { openSink, openSource } from '../connectors/open-connectors.ts'
import { version } from '../version.ts'
import { FlowCheckpoint } from './checkpoint/checkpoint.ts'
import type { CheckpointStore } from './checkpoint/checkpoint-store.ts'
import { createConfigMapStore } from './checkpoint/config-map-store.ts'
import { createFileStore } from './checkpoint/file-store.ts'
import { InvalidStart, isWrongConfiguration, type ProcessorConfig, type ProcessorFlags, readProcessorConfig } from './config.ts'
import { type LoadedSpec, loadSpec } from './load-spec.ts'
import { createFlowLog } from './open-log.ts'
import { Pipeline } from './pipeline/pipeline.ts'
import type { FlowEnd } from './pipeline/pipeline-options.ts'
import { connectRetry, retryDelayMs } from './pipeline/retry.ts'
import { createRedact } from './secret-values.ts'
import { createFlowMetrics } from './status/flow-metrics.ts'
import { startHealth } from './status/health.ts'
import { Tap } from './tap/tap.ts'
import { startTapServer } from './tap/tap-server.ts'

export type { ProcessorFlags } from './config.ts'
export { type ReplayFlags, runReplay } from './replay/replay-main.ts'

/** `brokkr dataflow processor`: runs until the source ends, a signal stops it, or the flow fails. */
export async function runProcessor(options: { readonly flags: ProcessorFlags; readonly env: NodeJS.ProcessEnv }): Promise<void> {
  checkStart()
  try {
    const config = readProcessorConfig(options.flags, options.env)
    const spec = await loadSpec(config.specPath, config.identity)
    const { exitCode } = await runFlow(config, spec, options.env)
    process.exit(exitCode)
  } catch (error) {
    process.stderr.write(`brokkr dataflow processor did not start: ${errorText(error)}\n`)
    process.exit(isWrongConfiguration(error) ? wrongConfigurationExitCode : 1)
  }
}

async function runFlow(config: ProcessorConfig, spec: LoadedSpec, env: NodeJS.ProcessEnv): Promise<FlowEnd> {
  const { flow, processorSpec, specHash } = spec
  const redact = createRedact(flow, processorSpec.secretPlaces)
  const log = createFlowLog(config, redact)
  const metrics = createMetrics({ processMetrics: true })
  const checkpoint = await openCheckpoint(config, spec, env)
  const health = await startHealth(
    { clock: systemClock, log, metrics },
    { host: '0.0.0.0', port: config.metricsPort, pod: config.pod, version },
  )
  const tap = new Tap({ clock: systemClock }, flow)
  const tapServer = await startTapServer({ tap, log }, config.tapPort)
  log.info('processor started', { port: health.port, tap_port: tapServer.port, version, spec_hash: specHash, bounded: config.isBounded })
  const stopping = stopOnSignals(log)
  try {
    if (checkpoint !== undefined) await takeOverCheckpoint(checkpoint, log, stopping, processorSpec.oneShots.resetId)
  } catch (error) {
    if (stopping.aborted) return { exitCode: 0, reason: 'asked to stop' }
    throw error
  }
  const { identity, isBounded, allowLoopback, settings } = config
  const pipeline = new Pipeline(
    {
      clock: systemClock,
      log,
      metrics: createFlowMetrics(metrics, identity),
      checkpoint,
      redact,
      tap,
      openSource: (context) => openSource(flow.source, context),
      openSink: ({ spec: sink }, context) => openSink(sink, context),
    },
    { flow, identity, specHash, oneShots: processorSpec.oneShots, isBounded, allowLoopback, settings },
  )
  health.observe(pipeline)
  metrics.beforeScrape(() => pipeline.report.updateGauges())
  stopping.addEventListener('abort', () => pipeline.stop())
  if (stopping.aborted) pipeline.stop()
  const end = await pipeline.run()
  log.info('processor ended', { exit_code: end.exitCode, reason: end.reason })
  await Promise.all([health.close(), tapServer.close()])
  return end
}

/** The first signal starts an orderly end, the second one ends the process. */
function stopOnSignals(log: Log): AbortSignal {
  const stopping = new AbortController()
  const stop = (signal: NodeJS.Signals) => {
    if (stopping.signal.aborted) process.exit(1)
    log.info('processor stopping', { signal })
    stopping.abort(new Error(`stopped by ${signal}`))
  }
  process.on('SIGTERM', stop).on('SIGINT', stop)
  process.on('uncaughtException', (error) => {
    log.error('uncaught error', { error })
    process.exit(1)
  })
  return stopping.signal
}

async function openCheckpoint(config: ProcessorConfig, { flow }: LoadedSpec, env: NodeJS.ProcessEnv): Promise<FlowCheckpoint | undefined> {
  if (!flow.checkpointPersistence) return undefined
  return new FlowCheckpoint(await openCheckpointStore(config, flow.kind, env), {
    pod: config.pod,
    uid: randomUUID(),
    sourceType: flow.source.type,
    isShared: flow.source.type === 'kafka' && flow.replicas > 1,
  })
}

async function openCheckpointStore(config: ProcessorConfig, kind: FlowKind, env: NodeJS.ProcessEnv): Promise<CheckpointStore> {
  if (config.checkpointFile !== undefined) return createFileStore(config.checkpointFile)
  const { kubeconfig: path, identity } = config
  const kubeConfig = path === undefined ? await loadInCluster({ env }) : await loadKubeconfig({ path, env })
  const kube = openKube(kubeConfig, { env, userAgent: `brokkr-dataflow-processor/${version}` })
  const prefix = kind === 'DataFlowCron' ? 'dataflowcron' : 'dataflow'
  return createConfigMapStore(kube, { namespace: identity.namespace, name: `${prefix}-${identity.name}-checkpoint` })
}

/** Retries while the store is unavailable: the checkpoint holds the start position. An unreadable checkpoint ends the process. */
async function takeOverCheckpoint(checkpoint: FlowCheckpoint, log: Log, signal: AbortSignal, resetId: string | undefined): Promise<void> {
  for (let failures = 0; ; failures += 1) {
    try {
      await checkpoint.takeOver(signal, resetId)
      return
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof UnreadableCheckpoint) throw new InvalidStart(error.message, { cause: error })
      log.warn('checkpoint unavailable', { error: toError(error) })
      await systemClock.sleep(retryDelayMs(connectRetry, failures), signal)
    }
  }
}
