// Deployment, StatefulSet and DaemonSet: the revision is the tag or digest of an image, or a label.

import { conditionStatus, type Fields, fieldsAt, flagAt, type KubeObject, numberAt, rowsAt, textAt } from '@brokkr/kube'
import { type AppAdapter, notReported, type RevisionFrom, toReading, trimMetadata } from './adapter.ts'

export const deployment = workload('Deployment', ({ spec, status }, object) => {
  const replicas = numberAt(spec, 'replicas') ?? 1
  return (
    replicas > 0 &&
    !flagAt(spec, 'paused') &&
    equal(replicas, status, ['updatedReplicas', 'replicas', 'availableReplicas']) &&
    conditionStatus(object, 'Progressing') !== 'False'
  )
})

export const statefulSet = workload('StatefulSet', ({ spec, status }) => {
  const replicas = numberAt(spec, 'replicas') ?? 1
  return (
    replicas > 0 &&
    // A partition leaves pods on the old revision on purpose.
    (numberAt(spec, 'updateStrategy', 'rollingUpdate', 'partition') ?? 0) === 0 &&
    equal(replicas, status, ['updatedReplicas', 'availableReplicas']) &&
    textAt(status, 'currentRevision') === textAt(status, 'updateRevision')
  )
})

export const daemonSet = workload('DaemonSet', ({ status }) => {
  const desired = numberAt(status, 'desiredNumberScheduled') ?? 0
  return desired > 0 && equal(desired, status, ['updatedNumberScheduled', 'numberAvailable'])
})

function workload(kind: string, isRolloutComplete: (parts: { spec: Fields; status: Fields }, object: KubeObject) => boolean): AppAdapter {
  return {
    group: 'apps',
    kind,
    trim: trimWorkload,
    read(object, from) {
      const status = object.status ?? {}
      if (Object.keys(status).length === 0) return notReported
      const revision = revisionOf(object, from)
      const isReady = isRolloutComplete({ spec: object.spec ?? {}, status }, object)
      return 'error' in revision
        ? toReading(object, { revision: null, isReady: false, error: revision.error })
        : toReading(object, { revision: revision.text, isReady })
    },
  }
}

const equal = (wanted: number, status: Fields, names: readonly string[]): boolean =>
  names.every((name) => (numberAt(status, name) ?? 0) === wanted)

function revisionOf(object: KubeObject, from: RevisionFrom): { text: string } | { error: string } {
  if (from.label !== undefined) {
    const value = object.metadata.labels?.[from.label] ?? textAt(object.spec, 'template', 'metadata', 'labels', from.label)
    return value ? { text: value } : { error: `the label ${from.label} is not set` }
  }
  const containers = rowsAt(object.spec, 'template', 'spec', 'containers')
  const container = from.container === undefined ? containers[0] : containers.find(({ name }) => name === from.container)
  if (container === undefined) return { error: `there is no container ${from.container ?? ''}`.trim() }
  const image = textAt(container, 'image') ?? ''
  const text = imageRevision(image)
  return text === null ? { error: `the image ${image} has neither a tag nor a digest` } : { text }
}

/** Digest, else tag; a colon before the last slash belongs to the registry's port. */
export function imageRevision(image: string): string | null {
  const digest = image.split('@')[1]
  if (digest) return digest
  const [, tag] = (image.split('/').at(-1) ?? '').split(':')
  return tag || null
}

/** Pod templates can be large; only names and images of their containers are kept. */
function trimWorkload(object: KubeObject): KubeObject {
  const { template: _template, selector: _selector, volumeClaimTemplates: _claims, ...spec } = object.spec ?? {}
  const containers = rowsAt(object.spec, 'template', 'spec', 'containers').map(({ name, image }) => ({ name, image }))
  const labels = fieldsAt(object.spec, 'template', 'metadata', 'labels') ?? {}
  return {
    apiVersion: object.apiVersion,
    kind: object.kind,
    metadata: trimMetadata(object),
    spec: { ...spec, template: { metadata: { labels }, spec: { containers } } },
    ...(object.status ? { status: object.status } : {}),
  }
}
