// Validates a stored flow. Pure. An object that was stored before the rule of replicas existed is not refused: its replicas are clipped.
import { re2 } from '@brokkr/contract/dataflow/language/re2.ts'
import type { NormalizeResult } from '@brokkr/contract/dataflow/spec/types.ts'
import { validate } from '@brokkr/contract/dataflow/spec/validate.ts'
import type { KubeObject } from '@brokkr/kube'

export type StoredFlow = NormalizeResult & { readonly isClipped: boolean }

export function validateStored(object: KubeObject): StoredFlow {
  const result = validate(object, re2)
  const isOnlyReplicas = result.problems.length > 0 && result.problems.every(({ rule }) => rule === 'V33')
  if (!isOnlyReplicas) return { ...result, isClipped: false }
  return { ...validate({ ...object, spec: { ...object.spec, replicas: 1 } }, re2), isClipped: true }
}
