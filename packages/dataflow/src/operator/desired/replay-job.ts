// Job that processes the dead letters of a flow again. Pure.
import type { Flow } from '@brokkr/contract/dataflow/spec/types.ts'
import type { KubeObject } from '@brokkr/kube'
import { buildLabels, childMetadata, label, type Owner, replayName, toLabelValue } from '../names.ts'
import type { ReplayRequest } from '../passes/one-shots.ts'
import { type ProcessorEnvironment, processorPod } from './pod.ts'

const keepSeconds = 24 * 3600

export function replayJob(owner: Owner, flow: Flow, request: ReplayRequest, environment: ProcessorEnvironment): KubeObject {
  const labels = { ...buildLabels(owner), [label.replayId]: toLabelValue(request.id) }
  // Its pods do not match the selector of the Deployment.
  const podLabels = Object.fromEntries(Object.entries(labels).filter(([key]) => key !== label.name))
  const flags = { from: request.from, to: request.to, max: request.max }
  const args = Object.entries(flags).flatMap(([flag, value]) => (value === undefined ? [] : [`--${flag}=${value}`]))
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { ...childMetadata(owner, replayName(owner, request.id)), labels },
    spec: {
      backoffLimit: 2,
      ttlSecondsAfterFinished: keepSeconds,
      template: {
        metadata: { labels: { ...environment.labels, ...podLabels } },
        spec: processorPod(owner, flow, {
          environment,
          command: 'replay',
          args: [`--uid=${owner.metadata.uid ?? ''}`, '--result-file=/dev/termination-log', ...args],
          restartPolicy: 'Never',
        }),
      },
    },
  }
}
