// The adapters by group and kind. The version in appRef selects the endpoint, not the shape of the status.
import type { AppRef } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import { groupOf, isTrue, type Kind, type KubeObject, valueAt } from '@brokkr/kube'
import { type AppAdapter, type AppReading, notReported, toReading, trimMetadata } from './adapter.ts'
import { application } from './argo.ts'
import { hasConditions, helmRelease, kustomization } from './flux.ts'
import { daemonSet, deployment, statefulSet } from './workloads.ts'

const adapters: readonly AppAdapter[] = [helmRelease, kustomization, application, deployment, statefulSet, daemonSet]

/** Any other kind: the Ready condition, and a revision at a dotted path. The path may lead anywhere, so the whole object is kept. */
const generic: Omit<AppAdapter, 'group' | 'kind'> = {
  trim: (object) => ({ ...object, metadata: trimMetadata(object) }),
  read(object, from) {
    if (!hasConditions(object)) return notReported
    const value = valueAt(object, ...(from.path ?? 'status.lastAppliedRevision').split('.'))
    return toReading(object, { revision: typeof value === 'string' && value !== '' ? value : null, isReady: isTrue(object, 'Ready') })
  },
}

const adapterOf = (kind: Kind): Omit<AppAdapter, 'group' | 'kind'> =>
  adapters.find((adapter) => adapter.kind === kind.kind && adapter.group === groupOf(kind.apiVersion)) ?? generic

export const readApp = (object: KubeObject, appRef: AppRef): AppReading => adapterOf(appRef).read(object, appRef.revisionFrom ?? {})

/** What an informer keeps of an application object. */
export const trimApp =
  (kind: Kind) =>
  (object: KubeObject): KubeObject =>
    adapterOf(kind).trim(object)
