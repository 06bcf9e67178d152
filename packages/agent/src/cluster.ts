// The way to the API server of our own cluster: by kubeconfig where one is named, else as the pod that we are.
import { openKube } from '@brokkr/kube/client.ts'
import { loadInCluster } from '@brokkr/kube/in-cluster.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import { loadKubeconfig } from '@brokkr/kube/kubeconfig.ts'
import { backoffDelayMs } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText, toError } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { AgentConfig } from './config.ts'
import { version } from './version.ts'

export interface Cluster {
  readonly kube: Kube
  /** Where the inventories and the agent's own state live. */
  readonly namespace: string
}
/** Where there is no pod whose namespace could be ours. */
const defaultNamespace = 'brokkr-agent'

export const kubeLimits = ({ agent }: Pick<AgentConfig, 'agent'>) => ({
  inFlight: agent.kube_in_flight,
  qps: agent.kube_qps,
  burst: agent.kube_burst,
})

/** Nothing is sent yet. */
export async function openCluster(deps: { clock: Clock; env: NodeJS.ProcessEnv }, { agent }: AgentConfig): Promise<Cluster> {
  const path = agent.kubeconfig_path
  const config = path === null ? await loadInCluster({ env: deps.env }) : await loadKubeconfig({ path, env: deps.env })
  const kube = openKube(config, {
    clock: deps.clock,
    env: deps.env,
    userAgent: `brokkr-agent/${version}`,
    limits: kubeLimits({ agent }),
  })
  return { kube, namespace: agent.namespace ?? (path === null ? config.namespace : defaultNamespace) }
}

/** Repeats `work` until it succeeds: an API server that is away is waited for, whatever the reason. */
export async function untilClusterAnswers<T>(
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
      if (failures === 0) deps.log.warn('API server not ready for us yet', { error: toError(error) })
      await deps.clock.sleep(backoffDelayMs({ baseMs: 1_000, maxMs: 60_000, jitter: 'equal' }, failures), signal)
    }
  }
}
