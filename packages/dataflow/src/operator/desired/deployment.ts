// The Deployment of a flow's processors. Pure. Its pods roll when the spec's hash changes, and for nothing else that the spec holds.
import { createHash } from 'node:crypto'
import { parseQuantity } from '@brokkr/contract/dataflow/duration.ts'
import type { Flow } from '@brokkr/contract/dataflow/types.ts'
import { textAt } from '@brokkr/kube/fields.ts'
import type { KubeObject } from '@brokkr/kube/object.ts'
import { accountName, annotation, deploymentName, labelsOf, ownerOf, secretName } from '../names.ts'

export interface DeploymentParts {
  readonly specHash: string
  /** PROCESSOR_IMAGE. */
  readonly image: string
  readonly replicas: number
}

const port = 9090
const graceSeconds = 120

export function processorDeployment(owner: KubeObject, flow: Flow, parts: DeploymentParts): KubeObject {
  const { name, namespace } = owner.metadata
  const labels = labelsOf(name)
  const object = {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: deploymentName(name), namespace: namespace ?? '', labels, ownerReferences: [ownerOf(owner)] },
    spec: {
      replicas: parts.replicas,
      // Two processors of one flow would fence each other.
      strategy: { type: 'Recreate' },
      selector: { matchLabels: labels },
      template: { metadata: { labels, annotations: { [annotation.specHash]: parts.specHash } }, spec: podSpec(owner, flow, parts) },
    },
  }
  const appliedHash = createHash('sha256').update(JSON.stringify(object)).digest('hex')
  return { ...object, metadata: { ...object.metadata, annotations: { [annotation.appliedHash]: appliedHash } } }
}

function podSpec({ metadata: { name, namespace } }: KubeObject, flow: Flow, { image }: DeploymentParts): Record<string, unknown> {
  const { nodeSelector, affinity, tolerations, imagePullSecrets } = flow
  const keepsCheckpoint = flow.checkpointPersistence
  return {
    terminationGracePeriodSeconds: graceSeconds,
    automountServiceAccountToken: keepsCheckpoint,
    ...(keepsCheckpoint ? { serviceAccountName: accountName(name) } : {}),
    nodeSelector,
    affinity,
    tolerations,
    imagePullSecrets,
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    containers: [
      {
        name: 'processor',
        image: imageOf(flow, image),
        command: ['brokkr', 'dataflow', 'processor'],
        args: ['--spec-path=/etc/dataflow/spec.json', `--namespace=${namespace ?? ''}`, `--name=${name}`],
        env: [{ name: 'POD_NAME', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }, nodeOptions(flow)],
        ports: [{ name: 'metrics', containerPort: port }],
        resources: flow.resources,
        startupProbe: probe('/readyz', 5, 60),
        livenessProbe: probe('/livez', 15, 4),
        securityContext: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } },
        volumeMounts: [{ name: 'spec', mountPath: '/etc/dataflow', readOnly: true }],
      },
    ],
    volumes: [{ name: 'spec', secret: { secretName: secretName(name) } }],
  }
}

const probe = (path: string, periodSeconds: number, failureThreshold: number) => ({
  httpGet: { path, port },
  periodSeconds,
  failureThreshold,
})

/** What waits for a sink survives a collection of young objects, and would have that part of the heap grow to its largest size. */
export const processorFlags = ['--max-semi-space-size=8'] as const

/** The rest is for buffers, code and threads: a heap that grew up to the limit would have the pod killed. */
function nodeOptions({ resources }: Flow): { name: string; value: string } {
  const bytes = parseQuantity(textAt(resources, 'limits', 'memory') ?? '')
  const limit = bytes === undefined ? [] : [`--max-old-space-size=${Math.floor((bytes * 0.6) / 2 ** 20)}`]
  return { name: 'NODE_OPTIONS', value: [...processorFlags, ...limit].join(' ') }
}

/** A whole reference wins; a version replaces the tag alone. */
function imageOf({ processorImage, processorVersion }: Flow, standard: string): string {
  if (processorImage !== undefined) return processorImage
  return processorVersion === undefined ? standard : `${standard.replace(/(:[^:/]*)?(@.*)?$/, '')}:${processorVersion}`
}
