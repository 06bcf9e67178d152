// Connects to the API server of the agent's cluster: by kubeconfig if one is configured, else with the pod's ServiceAccount.
import { type Kube, loadInCluster, loadKubeconfig, openKube } from '@brokkr/kube'
import { backoffDelayMs } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText, toError } from '@brokkr/runtime/errors.ts'
import type { Lifecycle } from '@brokkr/runtime/lifecycle.ts'
import { type Log } from '@brokkr/runtime/logging/log.ts'
import type { AgentConfig } from './config.ts'
import { withKubeMetrics } from './kube-metrics.ts'
import type { LiveSettings } from './live-settings.ts'
import type { AgentMetrics } from './metrics.ts'
import { ensureNamespace } from './reconcile/agent-state.ts'
import { version } from './version.ts'

export interface ClusterDeps {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: AgentMetrics
  readonly onWaiting: (why: string) => void
  readonly lifecycle: Lifecycle
  readonly settings: LiveSettings
  readonly env: NodeJS.ProcessEnv
}
export interface Cluster {
  readonly kube: Kube
  /** The same client without metrics, for the Lease. */
  readonly direct: Kube
  /** Namespace of the inventories and of the agent's own state. */
  readonly namespace: string
}
/** Used outside a pod. */
const defaultNamespace = 'brokkr-agent'

/** Waits until the API server responds and the agent's namespace exists. */
export async function connectCluster(deps: ClusterDeps): Promise<Cluster> {
  const { log, lifecycle, settings } = deps
  const { signal } = lifecycle
  const { kube: direct, namespace } = await createClient(deps, settings.view)
  settings.onChange(() => {
    log.level = settings.view.log.level
    direct.setLimits(toKubeLimits(settings.view))
  })
  lifecycle.onClose('API server', () => direct.close())
  const kube = withKubeMetrics(deps, direct)
  await retryUntilAvailable(deps, () => kube.discovery.refresh(signal), signal)
  await retryUntilAvailable(deps, () => ensureNamespace(kube, namespace, signal), signal)
  return { kube, direct, namespace }
}

/** Sends no request. */
async function createClient(
  { clock, env }: Pick<ClusterDeps, 'clock' | 'env'>,
  { agent }: AgentConfig,
): Promise<{ kube: Kube; namespace: string }> {
  const path = agent.kubeconfig_path
  const config = path === null ? await loadInCluster({ env }) : await loadKubeconfig({ path, env })
  const kube = openKube(config, { clock, env, userAgent: `brokkr-agent/${version}`, limits: toKubeLimits({ agent }) })
  return { kube, namespace: agent.namespace ?? (path === null ? config.namespace : defaultNamespace) }
}

const toKubeLimits = ({ agent }: Pick<AgentConfig, 'agent'>) => ({
  inFlight: agent.kube_in_flight,
  qps: agent.kube_qps,
  burst: agent.kube_burst,
})

/** Repeats `work` with backoff after every error until it succeeds. */
export async function retryUntilAvailable<T>(
  deps: { clock: Clock; log: Log; onWaiting: (why: string) => void },
  work: () => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  for (let failures = 0; ; failures++) {
    try {
      return await work()
    } catch (error) {
      signal.throwIfAborted()
      deps.onWaiting(`the API server: ${errorText(error)}`)
      if (failures === 0) deps.log.warn('API server not ready', { error: toError(error) })
      await deps.clock.sleep(backoffDelayMs({ baseMs: 1_000, maxMs: 60_000, jitter: 'equal' }, failures), signal)
    }
  }
}
