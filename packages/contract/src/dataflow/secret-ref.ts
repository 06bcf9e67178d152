// References to Kubernetes secrets: read here, resolved by the operator, and then gone from the flow.
import { isMap, type Place, refuse, refuseType, type SecretRef } from './field.ts'

export function readSecretRef(value: unknown, at: Place): SecretRef | undefined {
  if (!isMap(value)) return refuseType(at, 'map', value)
  const { name, key, namespace } = value
  if (!isWord(name) || !isWord(key)) return refuse(at, 'V7', 'a secret reference needs name and key')
  if (namespace === undefined || namespace === null || namespace === '') return { name, key }
  return typeof namespace === 'string' ? { name, key, namespace } : refuseType(at, 'string', namespace)
}

const isWord = (value: unknown): value is string => typeof value === 'string' && value.trim() !== ''
