// Names that the operator uses: annotations, finalizers, labels, and the objects of a flow.
import { createHash } from 'node:crypto'
import type { KubeObject, OwnerReference } from '@brokkr/kube'

const group = 'dataflow.dataflow.io'
export const apiVersion = `${group}/v1`
export const fieldManager = 'brokkr-dataflow-operator'

export const annotation = {
  paused: `${group}/paused`,
  resetCheckpoint: `${group}/reset-checkpoint`,
  rewind: `${group}/rewind`,
  replay: `${group}/replay`,
  skip: `${group}/skip`,
  run: `${group}/run`,
  shareWith: `${group}/share-with`,
  specHash: `${group}/spec-hash`,
  /** Hash of processor image and environment: a change is an upgrade, which is limited. */
  environmentHash: `${group}/environment-hash`,
  secretEnvHash: `${group}/secret-environment-hash`,
  /** Set on a Deployment that an upgrade rolls. */
  upgrading: `${group}/upgrading`,
  /** Address of a processor that runs beside a simulated pod. */
  progressAddress: `${group}/progress-address`,
} as const

/** Keeps a deleted flow until its pods have ended. */
export const finalizer = `${group}/cleanup`
/** Left behind by the public operator, which does not run beside this one. */
export const foreignFinalizers: readonly string[] = [`${group}/finalizer`, `${group}/cron-finalizer`]

export const label = {
  owned: `${group}/owned`,
  name: `${group}/name`,
  cron: `${group}/dataflow-cron`,
  runId: `${group}/run-id`,
  triggerIndex: `${group}/trigger-index`,
  generatedBy: `${group}/generated-by`,
  replayId: `${group}/replay-id`,
} as const

export type FlowKindName = 'DataFlow' | 'DataFlowCron'
export interface Owner {
  readonly kind: string
  readonly metadata: KubeObject['metadata']
}

const prefixOf = ({ kind }: Owner): string => (kind === 'DataFlowCron' ? 'dataflowcron' : 'dataflow')

export const secretName = (owner: Owner): string => `${prefixOf(owner)}-${owner.metadata.name}-spec`
export const checkpointName = (owner: Owner): string => `${prefixOf(owner)}-${owner.metadata.name}-checkpoint`
export const accountName = (owner: Owner): string => `${prefixOf(owner)}-${owner.metadata.name}-processor`
/** Of the Deployment or CronJob. A CronJob's name leaves room for the suffix of its Jobs, because the name of the flow is short. */
export const workloadName = (owner: Owner): string => `${prefixOf(owner)}-${owner.metadata.name}`
export const serviceName = (owner: Owner): string => cutName(workloadName(owner))
export const replayName = (owner: Owner, id: string): string => cutName(`${workloadName(owner)}-replay-${toNamePart(id)}`)
export const runName = (owner: Owner, id: string): string => cutName(`${workloadName(owner)}-run-${toNamePart(id)}`)
export const triggerName = (owner: Owner, runId: string, index: number): string => cutName(`${workloadName(owner)}-${runId}-t${index}`)

const nameMax = 63
const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 8)

/** A name that is too long is cut and ends with a hash of the whole name. */
export const cutName = (name: string): string => (name.length <= nameMax ? name : `${name.slice(0, nameMax - 9)}-${hashOf(name)}`)

/** An id of a request may contain any text. */
const toNamePart = (id: string): string => (/^[a-z0-9]([a-z0-9-]*[a-z0-9])?$/.test(id) ? id : hashOf(id))

/** An id that cannot be the value of a label is replaced by its hash. */
export const toLabelValue = (id: string): string => (/^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/.test(id) ? id : hashOf(id))

/** A Cron's pods do not match the selector of a DataFlow with the same name. */
export const buildLabels = (owner: Owner): Record<string, string> => ({
  app: 'dataflow-processor',
  [owner.kind === 'DataFlowCron' ? label.cron : label.name]: owner.metadata.name,
  [label.owned]: 'true',
})

const toOwnerReference = ({ metadata, kind }: Owner): OwnerReference => ({
  apiVersion,
  kind,
  name: metadata.name,
  uid: metadata.uid ?? '',
  controller: true,
  blockOwnerDeletion: true,
})

/** Metadata of a child. */
export const childMetadata = (owner: Owner, name: string): KubeObject['metadata'] => ({
  name,
  namespace: owner.metadata.namespace ?? '',
  labels: buildLabels(owner),
  ownerReferences: [toOwnerReference(owner)],
})

/** Key of a flow in queues and caches. */
export const flowKey = ({ kind, metadata: { namespace, name } }: Owner): string => `${kind}/${namespace ?? ''}/${name}`

export function parseFlowKey(key: string): { kind: FlowKindName; namespace: string; name: string } {
  const [kind, namespace = '', name = ''] = key.split('/')
  return { kind: kind === 'DataFlowCron' ? 'DataFlowCron' : 'DataFlow', namespace, name }
}
