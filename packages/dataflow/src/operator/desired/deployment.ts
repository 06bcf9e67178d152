// Deployment of a flow's processors. Pure. Pods roll on a change of spec, secrets, processor image or processor environment.
import type { Flow } from '@brokkr/contract/dataflow/spec/types.ts'
import type { KubeObject } from '@brokkr/kube'
import { annotation, buildLabels, childMetadata, type Owner, workloadName } from '../names.ts'
import { hashEnvironment, type ProcessorEnvironment, processorPod } from './pod.ts'

export { processorFlags } from './pod.ts'

export interface DeploymentParts {
  readonly specHash: string
  /** Undefined: the environment has no secret values. */
  readonly secretEnvHash: string | undefined
  readonly environment: ProcessorEnvironment
  readonly replicas: number
  /** The rollout counts against the limit of an upgrade. */
  readonly isUpgrade?: boolean
}

export function processorDeployment(owner: Owner, flow: Flow, parts: DeploymentParts): KubeObject {
  const labels = buildLabels(owner)
  const { specHash, secretEnvHash, environment, replicas } = parts
  const environmentHash = hashEnvironment(environment, secretEnvHash)
  const secretEnv = secretEnvHash === undefined ? {} : { [annotation.secretEnvHash]: secretEnvHash }
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: {
      ...childMetadata(owner, workloadName(owner)),
      annotations: {
        [annotation.environmentHash]: environmentHash,
        ...(parts.isUpgrade === true ? { [annotation.upgrading]: environmentHash } : {}),
      },
    },
    spec: {
      replicas,
      // Two processors of one flow would fence each other.
      strategy: { type: 'Recreate' },
      selector: { matchLabels: labels },
      template: {
        metadata: { labels: { ...environment.labels, ...labels }, annotations: { [annotation.specHash]: specHash, ...secretEnv } },
        spec: processorPod(owner, flow, { environment, command: 'processor' }),
      },
    },
  }
}
