// A checkpoint in the flow's ConfigMap. The operator makes the object; its data are the processor's alone.
import { hasReason } from '@brokkr/kube/api-error.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import type { KubeObject } from '@brokkr/kube/object.ts'
import { type CheckpointStore, StoreConflict, type StoredTexts } from './checkpoint-store.ts'

export function checkpointConfigMap(kube: Kube, place: { readonly namespace: string; readonly name: string }): CheckpointStore {
  const ref = { apiVersion: 'v1', kind: 'ConfigMap', ...place }
  return {
    load: async (signal) => textsOf(await kube.get(ref, { signal })),
    save: async (texts, version, signal) => {
      const body = { metadata: { resourceVersion: version }, data: texts }
      try {
        return textsOf(await kube.patch(ref, { type: 'merge', body }, { signal })).version
      } catch (error) {
        if (hasReason(error, 'Conflict'))
          throw new StoreConflict(`ConfigMap ${place.namespace}/${place.name} was changed`, { cause: error })
        throw error
      }
    },
  }
}

const textsOf = (object: KubeObject): StoredTexts => ({
  texts: (object['data'] as Record<string, string> | undefined) ?? {},
  version: object.metadata.resourceVersion ?? '',
})
