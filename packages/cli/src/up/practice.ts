// The practice cluster: a real etcd and kube-apiserver first, so that the agent can join; controllers and simulated nodes
// follow. Without any way to get Kubernetes the step is skipped, and says how to mend that.
import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { type AssetProgress, ensureKubeAssets } from '@brokkr/local/assets.ts'
import { KubeUnavailable } from '@brokkr/local/kube-unavailable.ts'
import { type ControlPlane, startControlPlane } from '@brokkr/local/kubernetes.ts'
import { startTimeOf } from '@brokkr/local/process-table.ts'
import { CliError } from '../output.ts'
import type { Done, Say } from './progress.ts'
import type { UpContext } from './up.ts'

export interface Practice {
  readonly kubeconfigPath: string
  readonly clusterName: string
  /** Brings the slower half up: controllers and nodes. */
  finish(step: (work: (say: Say) => Promise<Done<void>>) => Promise<void>): Promise<void>
}
const nodeCount = 3

export async function startPractice(context: UpContext, say: Say): Promise<Done<Practice | null>> {
  const { kubeconfig } = context.flags
  if (kubeconfig !== undefined) return givenCluster(resolve(kubeconfig))
  try {
    const assets = await ensureKubeAssets({ stage: 'core', signal: context.signal, onProgress: (p) => say(textOf(p)) })
    say(`starting kube-apiserver ${assets.version}`)
    const plane = await startControlPlane({
      dir: join(context.dir, 'practice'),
      assets,
      liftLimits: false,
      signal: context.signal,
      onProgress: say,
    })
    attach(context, plane)
    return { detail: `kube-apiserver ${assets.version} at ${plane.url}`, value: practiceOf(context, plane) }
  } catch (error) {
    if (!(error instanceof KubeUnavailable)) throw error
    return { detail: error.message, value: null, skipped: true }
  }
}

async function givenCluster(path: string): Promise<Done<Practice>> {
  await readFile(path).catch((cause: unknown) => {
    throw new CliError('the kubeconfig cannot be read', {
      where: path,
      next: 'name a file: brokkr up --kubeconfig FILE',
      exitCode: 2,
      cause,
    })
  })
  return { detail: `the cluster of ${path}`, value: { kubeconfigPath: path, clusterName: 'given', finish: async () => undefined } }
}

function practiceOf(context: UpContext, plane: ControlPlane): Practice {
  return {
    kubeconfigPath: plane.kubeconfigPath,
    clusterName: 'practice',
    finish: (step) =>
      step(async (say) => {
        try {
          plane.useAssets(await ensureKubeAssets({ signal: context.signal, onProgress: (p) => say(textOf(p)) }))
          await plane.ensureNodes(nodeCount)
          attach(context, plane)
          return { detail: `${nodeCount} nodes; pods are simulated`, value: undefined }
        } catch (error) {
          if (!(error instanceof KubeUnavailable)) throw error
          return { detail: error.message, value: undefined, skipped: true }
        }
      }),
  }
}

/** Recorded one by one, so that the next start finds what a killed one left; the plane itself stops them in its order. */
function attach({ supervisor }: UpContext, plane: ControlPlane): void {
  for (const [name, pid] of Object.entries(plane.pids())) {
    const startTime = startTimeOf(pid)
    if (startTime !== undefined)
      supervisor.attach({ name, pid, startTime, log: join(plane.dir, `${name}.log`), stopSignal: 'SIGKILL', stop: () => plane.stop() })
  }
}

const textOf = ({ part, step, detail, done, total }: AssetProgress): string =>
  `${part} ${step}: ${detail}${done === undefined || total === undefined ? '' : ` ${done} of ${total}`}`
