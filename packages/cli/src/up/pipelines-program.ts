// The pipelines controller of a local installation as a supervised process, with its definitions in the practice cluster.
import { freePorts } from '@brokkr/local/supervisor/free-ports.ts'
import type { LocalBroker } from './broker-program.ts'
import type { LocalCluster } from './local-cluster.ts'
import type { StepResult } from './progress.ts'
import { findStartCommand } from './start-command.ts'
import type { UpContext } from './up.ts'

/** What broker and controller share: chosen before either starts. */
export interface PipelinesAt {
  readonly port: number
  readonly url: string
  readonly keyFile: string
}

export async function startPipelinesProgram(
  { supervisor }: UpContext,
  at: { broker: LocalBroker; practice: LocalCluster; pipelines: PipelinesAt },
): Promise<StepResult<void>> {
  const { broker, practice, pipelines } = at
  const [metricsPort, probePort] = await freePorts(2)
  const program = findStartCommand('pipelines')
  await supervisor.start({
    name: 'pipelines',
    ...program,
    env: {
      ...program.env,
      BROKKR__PIPELINES__KUBECONFIG_PATH: practice.kubeconfigPath,
      BROKKR__PIPELINES__NAMESPACE: 'default',
      BROKKR__PIPELINES__INSTALL_CRDS: 'true',
      BROKKR__PIPELINES__BROKER_URL: broker.url,
      BROKKR__PIPELINES__VOUCHING_KEYS_FILE: pipelines.keyFile,
      BROKKR__PIPELINES__BIND_HOST: '127.0.0.1',
      BROKKR__PIPELINES__PROMOTION_HOOK_PORT: String(pipelines.port),
      BROKKR__PIPELINES__METRICS_PORT: String(metricsPort),
      BROKKR__PIPELINES__HEALTH_PROBE_PORT: String(probePort),
      // A person waits for the next step.
      BROKKR__PIPELINES__STACK_POLL: '2',
    },
    ports: { hooks: pipelines.port, metrics: metricsPort!, probes: probePort! },
    ready: `http://127.0.0.1:${probePort}/readyz`,
    readyLimitMs: 60_000,
  })
  return { detail: `hooks at ${pipelines.url}`, value: undefined }
}
