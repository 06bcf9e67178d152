// Names that the operator gives: annotations, objects of a flow, labels on them. One place, so that nobody spells them twice.
import type { KubeObject, OwnerReference } from '@brokkr/kube/object.ts'

export const group = 'dataflow.dataflow.io'
export const apiVersion = `${group}/v1`
export const fieldManager = 'brokkr-dataflow-operator'
/** Orders of people come and go under a manager of their own, so that delivery of the object does not fight them. */
export const operationsManager = 'brokkr-operations'

export const annotation = {
  resetCheckpoint: `${group}/reset-checkpoint`,
  rewind: `${group}/rewind`,
  skip: `${group}/skip`,
  specHash: `${group}/spec-hash`,
  appliedHash: `${group}/applied-hash`,
} as const

export const secretName = (flow: string): string => `dataflow-${flow}-spec`
export const deploymentName = (flow: string): string => `dataflow-${flow}`
export const accountName = (flow: string): string => `dataflow-${flow}-processor`

export const labelsOf = (flow: string): Record<string, string> => ({
  app: 'dataflow-processor',
  [`${group}/name`]: flow,
  [`${group}/owned`]: 'true',
})

export const ownerOf = ({ metadata, kind }: KubeObject): OwnerReference => ({
  apiVersion,
  kind,
  name: metadata.name,
  uid: metadata.uid ?? '',
  controller: true,
  blockOwnerDeletion: true,
})
