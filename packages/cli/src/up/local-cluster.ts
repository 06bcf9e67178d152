// The local cluster: etcd and kube-apiserver start first, so that the agent can join; controllers and simulated nodes follow. If
// Kubernetes cannot be obtained, the step is skipped with a hint.
import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { type AssetProgress, ensureKubeAssets } from '@brokkr/local/assets/kube-assets.ts'
import { KubeUnavailable } from '@brokkr/local/assets/kube-unavailable.ts'
import { type ControlPlane, startControlPlane } from '@brokkr/local/kubernetes/kubernetes.ts'
import { readStartTime } from '@brokkr/local/supervisor/process-table.ts'
import { CliError } from '../output.ts'
import type { Say, StepResult } from './progress.ts'
import type { UpContext } from './up.ts'

export interface LocalCluster {
  readonly kubeconfigPath: string
  readonly clusterName: string
  /** Brings the slower half up: controllers and nodes. */
  finish(step: (work: (say: Say) => Promise<StepResult<void>>) => Promise<void>): Promise<void>
}
const nodeCount = 3

/** `name`: of the cluster, its folder and its agent. */
export async function startLocalCluster(context: UpContext, say: Say, name = 'practice'): Promise<StepResult<LocalCluster | null>> {
  const { kubeconfig } = context.flags
  if (kubeconfig !== undefined) return openNamedCluster(resolve(kubeconfig))
  try {
    const assets = await ensureKubeAssets({ stage: 'core', signal: context.signal, onProgress: (p) => say(formatProgress(p)) })
    say(`starting kube-apiserver ${assets.version}`)
    const plane = await startControlPlane({
      dir: join(context.dir, name),
      assets,
      liftLimits: false,
      signal: context.signal,
      onProgress: say,
    })
    attach(context, plane, name)
    return { detail: `kube-apiserver ${assets.version} at ${plane.url}`, value: toLocalCluster(context, plane, name) }
  } catch (error) {
    if (!(error instanceof KubeUnavailable)) throw error
    return { detail: error.message, value: null, skipped: true }
  }
}

async function openNamedCluster(path: string): Promise<StepResult<LocalCluster>> {
  await readFile(path).catch((cause: unknown) => {
    throw new CliError('the kubeconfig cannot be read', {
      where: path,
      next: 'name a file: brokkr up --kubeconfig FILE',
      exitCode: 2,
      cause,
    })
  })
  return {
    detail: `the cluster of ${path}`,
    value: { kubeconfigPath: path, clusterName: 'given', finish: async () => undefined },
  }
}

function toLocalCluster(context: UpContext, plane: ControlPlane, clusterName: string): LocalCluster {
  return {
    kubeconfigPath: plane.kubeconfigPath,
    clusterName,
    finish: (step) =>
      step(async (say) => {
        try {
          plane.useAssets(await ensureKubeAssets({ signal: context.signal, onProgress: (p) => say(formatProgress(p)) }))
          await plane.ensureNodes(nodeCount)
          attach(context, plane, clusterName)
          return { detail: `${nodeCount} nodes; pods are simulated`, value: undefined }
        } catch (error) {
          if (!(error instanceof KubeUnavailable)) throw error
          return { detail: error.message, value: undefined, skipped: true }
        }
      }),
  }
}

/** Recorded one by one, so that the next start finds processes of a killed one. The control plane itself stops them in order. */
function attach({ supervisor }: UpContext, plane: ControlPlane, clusterName: string): void {
  for (const [part, pid] of Object.entries(plane.pids())) {
    const startTime = readStartTime(pid)
    if (startTime !== undefined)
      supervisor.attach({
        // The names of the first cluster's processes are those of a machine with one cluster.
        name: clusterName === 'practice' ? part : `${clusterName}-${part}`,
        pid,
        startTime,
        log: join(plane.dir, `${part}.log`),
        stopSignal: 'SIGKILL',
        stop: () => plane.stop(),
      })
  }
}

const formatProgress = ({ part, step, detail, done, total }: AssetProgress): string =>
  `${part} ${step}: ${detail}${done === undefined || total === undefined ? '' : ` ${done} of ${total}`}`
