// The processor as a program: spec → checkpoint → probes → pipeline. Composition only. Exit codes: 0 ended, 1 failed, 2 bad spec, 3 fenced.
import { randomUUID } from 'node:crypto'
import { openKube } from '@brokkr/kube/client.ts'
import { loadInCluster } from '@brokkr/kube/in-cluster.ts'
import { loadKubeconfig } from '@brokkr/kube/kubeconfig.ts'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { errorText, toError } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics.ts'
import { checkStart } from '@brokkr/runtime/start-checks.ts'
import { version } from '../version.ts'
import { FlowCheckpoint } from './checkpoint.ts'
import { checkpointConfigMap } from './checkpoint-config-map.ts'
import { checkpointFile } from './checkpoint-file.ts'
import type { CheckpointStore } from './checkpoint-store.ts'
import { BadStart, type ProcessorConfig, type ProcessorFlags, readProcessorConfig } from './config.ts'
import { startHealth } from './health.ts'
import { type LoadedSpec, loadSpec } from './load-spec.ts'
import { flowMetrics } from './metrics.ts'
import { openSink, openSource } from './open-connectors.ts'
import { openLog } from './open-log.ts'
import { Pipeline } from './pipeline.ts'
import type { FlowEnd } from './pipeline-options.ts'
import { connectRetry, retryDelayMs } from './retry.ts'
import { createRedact } from './secret-values.ts'

export type { ProcessorFlags } from './config.ts'
export { type ReplayFlags, runReplay } from './replay-main.ts'

/** `brokkr dataflow processor`: runs until the source ends, a signal comes or it must not go on. */
export async function runProcessor(options: { readonly flags: ProcessorFlags; readonly env: NodeJS.ProcessEnv }): Promise<void> {
  checkStart()
  try {
    const config = readProcessorConfig(options.flags, options.env)
    const spec = await loadSpec(config.specPath, config.identity)
    const { exitCode } = await runFlow(config, spec, options.env)
    process.exit(exitCode)
  } catch (error) {
    process.stderr.write(`brokkr dataflow processor did not start: ${errorText(error)}\n`)
    process.exit(error instanceof BadStart ? 2 : 1)
  }
}

async function runFlow(config: ProcessorConfig, spec: LoadedSpec, env: NodeJS.ProcessEnv): Promise<FlowEnd> {
  const { flow, orders, specHash } = spec
  const redact = createRedact(flow, orders.secretPlaces)
  const log = openLog(config, redact)
  const stopping = new AbortController()
  const metrics = createMetrics({ processMetrics: true })
  const store = flow.checkpointPersistence ? await openStore(config, env) : undefined
  const checkpoint =
    store === undefined
      ? undefined
      : new FlowCheckpoint(store, {
          pod: config.pod,
          uid: randomUUID(),
          sourceType: flow.source.type,
          isShared: flow.source.type === 'kafka' && flow.replicas > 1,
        })
  let pipeline: Pipeline | undefined
  const health = await startHealth(
    {
      clock: systemClock,
      log,
      metrics,
      notReady: () => (pipeline?.isReady === true ? null : 'the flow is starting or stopping'),
      notAlive: () => pipeline?.notAlive ?? null,
      progress: () => {
        if (pipeline === undefined) throw new Error('the flow is starting')
        return pipeline.progress({ pod: config.pod, version })
      },
    },
    { host: '0.0.0.0', port: config.metricsPort },
  )
  log.info('processor started', { port: health.port, version, spec_hash: specHash, bounded: config.isBounded })
  const stop = (signal: NodeJS.Signals) => {
    if (stopping.signal.aborted) process.exit(1)
    log.info('stopping', { signal })
    stopping.abort(new Error(`stopped by ${signal}`))
    pipeline?.stop()
  }
  process.on('SIGTERM', stop).on('SIGINT', stop)
  process.on('uncaughtException', (error) => {
    log.error('uncaught error', { error })
    process.exit(1)
  })
  try {
    if (checkpoint !== undefined) await takeCheckpoint(checkpoint, log, stopping.signal)
  } catch (error) {
    if (stopping.signal.aborted) return { exitCode: 0, reason: 'asked to stop' }
    throw error
  }
  pipeline = new Pipeline(
    {
      clock: systemClock,
      log,
      metrics: flowMetrics(metrics, config.identity),
      checkpoint,
      redact,
      openSource: (context) => openSource(flow.source, context),
      openSink: ({ spec: sink }, context) => openSink(sink, context),
    },
    {
      flow,
      identity: config.identity,
      specHash,
      oneShots: orders.oneShots,
      isBounded: config.isBounded,
      allowLoopback: config.allowLoopback,
      settings: config.settings,
    },
  )
  metrics.beforeScrape(() => pipeline?.watch.scrape())
  const end = await pipeline.run()
  log.info('processor ends', { exit_code: end.exitCode, reason: end.reason })
  await health.close()
  return end
}

async function openStore(config: ProcessorConfig, env: NodeJS.ProcessEnv): Promise<CheckpointStore> {
  if (config.checkpointFile !== undefined) return checkpointFile(config.checkpointFile)
  const { kubeconfig: path, identity } = config
  const kubeConfig = path === undefined ? await loadInCluster({ env }) : await loadKubeconfig({ path, env })
  const kube = openKube(kubeConfig, { env, userAgent: `brokkr-dataflow-processor/${version}` })
  return checkpointConfigMap(kube, { namespace: identity.namespace, name: `dataflow-${identity.name}-checkpoint` })
}

/** An API server that is away is waited for: without the checkpoint nobody knows where to begin. */
async function takeCheckpoint(checkpoint: FlowCheckpoint, log: Log, signal: AbortSignal): Promise<void> {
  for (let failures = 0; ; failures += 1) {
    try {
      await checkpoint.take(signal)
      return
    } catch (error) {
      signal.throwIfAborted()
      log.warn('the checkpoint cannot be taken yet', { error: toError(error) })
      await systemClock.sleep(retryDelayMs(connectRetry, failures), signal)
    }
  }
}
