// From a flow that names secrets to one that holds their values.
import type { SecretRef, SecretUse } from './field.ts'
import type { Flow } from './types.ts'

/** The value of a secret wins over one written directly. `valueOf` throws for a secret it does not have. */
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
