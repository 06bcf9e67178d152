// Checkpoint in the flow's ConfigMap. The operator creates the object; only the processor writes its data.

import { hasReason, type Kube, type KubeObject } from '@brokkr/kube'
import { type CheckpointStore, StoreConflict, type StoredCheckpoint } from './checkpoint-store.ts'

export function createConfigMapStore(kube: Kube, place: { readonly namespace: string; readonly name: string }): CheckpointStore {
  const ref = { apiVersion: 'v1', kind: 'ConfigMap', ...place }
  return {
    load: async (signal) => toStoredCheckpoint(await kube.get(ref, { signal })),
    save: async (texts, version, signal) => {
      const body = { metadata: { resourceVersion: version }, data: texts }
      try {
        return toStoredCheckpoint(await kube.patch(ref, { type: 'merge', body }, { signal })).version
      } catch (error) {
        if (hasReason(error, 'Conflict'))
          throw new StoreConflict(`ConfigMap ${place.namespace}/${place.name} was changed`, { cause: error })
        throw error
      }
    },
  }
}

const toStoredCheckpoint = (object: KubeObject): StoredCheckpoint => ({
  texts: (object['data'] as Record<string, string> | undefined) ?? {},
  version: object.metadata.resourceVersion ?? '',
  storeId: object.metadata.uid ?? '',
})
