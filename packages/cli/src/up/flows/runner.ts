// Runs processors of a cluster whose pods are simulated: each scheduled pod of a flow becomes a local process with the same spec, arguments
// and environment, and the pod's status follows the process. Pods need the label `practice.brokkr.io/outcome=run`, with which the
// simulation leaves them alone.
import { join } from 'node:path'
import { type Change, type Kube, type KubeObject, startInformer, textAt } from '@brokkr/kube'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { type PodProcess, startPodProcess } from './pod-process.ts'

export interface RunnerOptions {
  readonly folder: string
  readonly kubeconfigPath: string
  /** Command line that starts `brokkr`. */
  readonly program: { readonly command: string; readonly args: readonly string[]; readonly env: Readonly<Record<string, string>> }
}

export interface FlowRunner {
  /** Name of each pod whose process runs. */
  running(): string[]
  stop(): Promise<void>
}

export const runLabel = 'practice.brokkr.io/outcome=run'
const podsMax = 50

export function startFlowRunner(deps: { readonly kube: Kube; readonly log: Log }, options: RunnerOptions): FlowRunner {
  const processes = new Map<string, { readonly flow: string; readonly process: Promise<PodProcess>; isEnding: boolean }>()
  const informer = startInformer(
    { ...deps, clock: systemClock },
    { kind: { apiVersion: 'v1', kind: 'Pod' }, labelSelector: `app=dataflow-processor,${runLabel}` },
  )
  informer.onChange((change) => void take(change).catch((error: unknown) => warn(change.value, error)))

  async function take({ type, value: pod }: Change<KubeObject>): Promise<void> {
    const uid = pod.metadata.uid ?? ''
    if (type === 'deleted' || pod.metadata.deletionTimestamp !== undefined) return end(uid)
    const isOver = ['Succeeded', 'Failed'].includes(textAt(pod, 'status', 'phase') ?? '')
    if (processes.has(uid) || isOver || textAt(pod, 'spec', 'nodeName') === undefined) return
    if (processes.size >= podsMax) throw new Error(`more than ${podsMax} processors: this pod is not run`)
    const flow = `${pod.metadata.namespace}/${pod.metadata.labels?.['dataflow.dataflow.io/name'] ?? pod.metadata.name}`
    // Two processors of one flow would fence each other, so a new one starts after the end of the old one.
    const before = [...processes.values()].filter((entry) => entry.flow === flow && entry.isEnding)
    const started = Promise.all(before.map((entry) => entry.process.then((process) => process.ended))).then(() =>
      startPodProcess(deps, pod, { ...options, folder: join(options.folder, uid) }),
    )
    processes.set(uid, { flow, process: started, isEnding: false })
    // Without its entry the pod is tried again with its next change.
    await started.catch((error: unknown) => {
      processes.delete(uid)
      throw error
    })
  }

  async function end(uid: string): Promise<void> {
    const entry = processes.get(uid)
    if (entry === undefined || entry.isEnding) return
    entry.isEnding = true
    await entry.process.then((process) => process.stop()).finally(() => processes.delete(uid))
  }

  function warn(pod: KubeObject, error: unknown): void {
    deps.log.warn('processor of a pod not run', { namespace: pod.metadata.namespace, pod: pod.metadata.name, error: errorText(error) })
  }

  return {
    running: () => [...processes.values()].filter(({ isEnding }) => !isEnding).map(({ flow }) => flow),
    stop: async () => {
      await informer.stop()
      await Promise.allSettled([...processes.keys()].map((uid) => end(uid)))
    },
  }
}
