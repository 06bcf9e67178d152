// Replaces secret references of a flow with their values.
import type { SecretRef, SecretUse } from '../fields/field.ts'
import type { Flow } from './types.ts'

/** A secret's value wins over a direct one. `valueOf` throws for a missing secret. */
export function resolveSecrets(flow: Flow, valueOf: (ref: SecretRef, use: SecretUse) => string): Flow {
  const copy = structuredClone(flow) as Flow & Record<string, unknown>
  for (const use of flow.secrets) put(copy, use, valueOf(use.ref, use))
  return { ...copy, secrets: [] }
}

function put(root: Record<string, unknown>, use: SecretUse, value: string): void {
  const owner = use.keys.slice(0, -1).reduce<unknown>((place, key) => (place as Record<string | number, unknown>)[key], root) as Record<
    string,
    unknown
  >
  owner[String(use.keys.at(-1))] = use.isList ? splitList(value) : value
  delete owner[use.twin]
}

const splitList = (value: string): string[] =>
  value
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')
