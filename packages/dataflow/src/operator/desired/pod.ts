// Pod of a processor, for Deployments, CronJobs and replays. Pure.
import { createHash, createHmac } from 'node:crypto'
import { parseQuantity } from '@brokkr/contract/dataflow/fields/duration.ts'
import type { Flow } from '@brokkr/contract/dataflow/spec/types.ts'
import { textAt } from '@brokkr/kube'
import { accountName, type Owner, secretName } from '../names.ts'

/** The part of the operator's settings that reaches processors. */
export interface ProcessorEnvironment {
  readonly image: string
  readonly env: Readonly<Record<string, string>>
  /** Values that the flow's Secret contains under these names. */
  readonly secretEnv: Readonly<Record<string, string>>
  /** Further labels of pods. */
  readonly labels: Readonly<Record<string, string>>
}

/** The order of names does not count. */
const toSorted = (map: Readonly<Record<string, string>>): string[] =>
  Object.entries(map)
    .map((entry) => JSON.stringify(entry))
    .toSorted((a, b) => (a < b ? -1 : 1))

/** Salted, because it is stored in clear text. Undefined without secret values. */
export const hashSecretEnv = (secretEnv: ProcessorEnvironment['secretEnv'], salt: Buffer): string | undefined =>
  Object.keys(secretEnv).length === 0
    ? undefined
    : createHmac('sha256', salt)
        .update(JSON.stringify(['secretEnv', toSorted(secretEnv)]))
        .digest('hex')

/** Without secret values, because it is stored in clear text: only their salted hash is part of it. */
export const hashEnvironment = ({ image, env, labels }: ProcessorEnvironment, secretEnvHash?: string): string =>
  createHash('sha256')
    .update(JSON.stringify([image, toSorted(env), toSorted(labels), ...(secretEnvHash === undefined ? [] : [secretEnvHash])]))
    .digest('hex')
    .slice(0, 16)

export interface PodParts {
  readonly environment: ProcessorEnvironment
  readonly command: 'processor' | 'replay'
  readonly args?: readonly string[]
  readonly restartPolicy?: 'Always' | 'Never'
}

const port = 9090
const graceSeconds = 120

export function processorPod(owner: Owner, flow: Flow, parts: PodParts): Record<string, unknown> {
  const { namespace = '', name } = owner.metadata
  const { nodeSelector, affinity, tolerations, imagePullSecrets } = flow
  const keepsCheckpoint = flow.checkpointPersistence
  const isService = parts.restartPolicy === undefined || parts.restartPolicy === 'Always'
  return {
    terminationGracePeriodSeconds: graceSeconds,
    automountServiceAccountToken: keepsCheckpoint,
    ...(keepsCheckpoint ? { serviceAccountName: accountName(owner) } : {}),
    ...(parts.restartPolicy === undefined ? {} : { restartPolicy: parts.restartPolicy }),
    ...present({ nodeSelector, affinity, tolerations, imagePullSecrets }),
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    containers: [
      {
        name: 'processor',
        image: chooseImage(flow, parts.environment.image),
        command: ['brokkr', 'dataflow', parts.command],
        args: ['--spec-path=/etc/dataflow/spec.json', `--namespace=${namespace}`, `--name=${name}`, ...(parts.args ?? [])],
        env: [
          { name: 'POD_NAME', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
          nodeOptions(flow),
          ...Object.entries(parts.environment.env).map(([key, value]) => ({ name: key, value })),
          ...Object.keys(parts.environment.secretEnv).map((key) => ({
            name: key,
            valueFrom: { secretKeyRef: { name: secretName(owner), key } },
          })),
        ],
        ports: [{ name: 'metrics', containerPort: port, protocol: 'TCP' }],
        resources: flow.resources,
        ...(isService ? probes : {}),
        securityContext: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } },
        volumeMounts: [
          { name: 'spec', mountPath: '/etc/dataflow', readOnly: true },
          { name: 'tmp', mountPath: '/tmp' },
        ],
      },
    ],
    volumes: [
      { name: 'spec', secret: { secretName: secretName(owner) } },
      { name: 'tmp', emptyDir: { sizeLimit: '64Mi' } },
    ],
  }
}

const present = (fields: Record<string, unknown>): Record<string, unknown> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))

const probe = (path: string, periodSeconds: number, failureThreshold: number) => ({
  httpGet: { path, port },
  periodSeconds,
  failureThreshold,
})

/** An outage of source or sink at the start never restarts the pod. */
const probes = {
  startupProbe: probe('/healthz', 5, 60),
  readinessProbe: probe('/readyz', 5, 3),
  livenessProbe: probe('/livez', 15, 4),
}

/** Queued records survive a young-generation collection, which would otherwise grow that part of the heap to its maximum. */
export const processorFlags = ['--max-semi-space-size=8'] as const

/** The rest is for buffers, code and threads: a heap that grows to the memory limit would get the pod killed. */
function nodeOptions({ resources }: Flow): { name: string; value: string } {
  const bytes = parseQuantity(textAt(resources, 'limits', 'memory') ?? '')
  const limit = bytes === undefined ? [] : [`--max-old-space-size=${Math.floor((bytes * 0.6) / 2 ** 20)}`]
  return { name: 'NODE_OPTIONS', value: [...processorFlags, ...limit].join(' ') }
}

/** A whole image reference wins; a version replaces only the tag. */
function chooseImage({ processorImage, processorVersion }: Flow, standard: string): string {
  if (processorImage !== undefined) return processorImage
  return processorVersion === undefined ? standard : `${standard.replace(/(:[^:/]*)?(@.*)?$/, '')}:${processorVersion}`
}
