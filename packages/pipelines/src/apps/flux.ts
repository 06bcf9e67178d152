// HelmRelease and Kustomization of Flux.

import { type Fields, isTrue, type KubeObject, numberAt, rowsAt, textAt } from '@brokkr/kube'
import { type AppAdapter, nonEmptyText, notReported, toReading, trimTo } from './adapter.ts'

const KEPT = { spec: ['suspend'], status: ['conditions', 'observedGeneration', 'lastAppliedRevision', 'history'] }

/** The chart version that is deployed. The newest history entry must be that one, or an upgrade has failed or is under way. */
export const helmRelease: AppAdapter = {
  group: 'helm.toolkit.fluxcd.io',
  kind: 'HelmRelease',
  trim: (object) => trimTo(object, KEPT),
  read(object) {
    if (!hasConditions(object)) return notReported
    const history = rowsAt(object.status, 'history').toSorted((a, b) => versionOf(b) - versionOf(a))
    const deployed = history.find((entry) => entry['status'] === 'deployed')
    const revision = history.length > 0 ? nonEmptyText(deployed, 'chartVersion') : nonEmptyText(object.status, 'lastAppliedRevision')
    return toReading(object, { revision, isReady: isReadyNow(object) && history[0] === deployed })
  },
}

export const kustomization: AppAdapter = {
  group: 'kustomize.toolkit.fluxcd.io',
  kind: 'Kustomization',
  trim: (object) => trimTo(object, KEPT),
  read: (object) =>
    hasConditions(object)
      ? toReading(object, { revision: nonEmptyText(object.status, 'lastAppliedRevision'), isReady: isReadyNow(object) })
      : notReported,
}

export const hasConditions = (object: KubeObject): boolean => rowsAt(object.status, 'conditions').length > 0

const isReadyNow = (object: KubeObject): boolean => isTrue(object, 'Ready') && !isTrue(object, 'Stalled')

const versionOf = (entry: Fields): number => numberAt(entry, 'version') ?? Number(textAt(entry, 'version') ?? 0)
