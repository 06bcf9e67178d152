// Resolves the secret references of a flow. A Secret of another namespace needs a grant: its annotation share-with lists the namespace of the
// flow. Messages name Secrets and keys, never values.
import type { SecretUse } from '@brokkr/contract/dataflow/fields/field.ts'
import { printProblem } from '@brokkr/contract/dataflow/fields/problem.ts'
import { re2 } from '@brokkr/contract/dataflow/language/re2.ts'
import { normalize } from '@brokkr/contract/dataflow/spec/normalize.ts'
import { printSpec } from '@brokkr/contract/dataflow/spec/print-spec.ts'
import { resolveSecrets } from '@brokkr/contract/dataflow/spec/secrets.ts'
import type { Flow } from '@brokkr/contract/dataflow/spec/types.ts'
import { notShared } from '@brokkr/contract/dataflow/spec/validate.ts'
import { isFields, type Kube, type KubeObject } from '@brokkr/kube'
import { mask } from '@brokkr/runtime/secret.ts'
import { annotation } from '../names.ts'

export class ResolutionError extends Error {
  override name = 'ResolutionError'
  readonly reason: 'ResolutionFailed' | 'NotShared'

  constructor(reason: 'ResolutionFailed' | 'NotShared', message: string) {
    super(message)
    this.reason = reason
  }
}

export interface FlowPlace {
  readonly namespace: string
  readonly name: string
}

/** `namespace/name` of every Secret that the flow refers to. */
export const listSecretKeys = (flow: Flow, namespace: string): string[] => [
  ...new Set(flow.secrets.map(({ ref }) => `${ref.namespace ?? namespace}/${ref.name}`)),
]

/** Throws ResolutionError with every problem. */
export async function resolveFlow(deps: { readonly kube: Kube }, flow: Flow, place: FlowPlace, signal: AbortSignal): Promise<Flow> {
  const secrets = new Map<string, KubeObject | undefined>()
  for (const key of listSecretKeys(flow, place.namespace)) {
    const [namespace, name] = key.split('/') as [string, string]
    secrets.set(key, await deps.kube.find({ apiVersion: 'v1', kind: 'Secret', namespace, name }, { signal }))
  }
  return resolveWith(flow, place, secrets)
}

/** Pure. */
export function resolveWith(flow: Flow, place: FlowPlace, secrets: ReadonlyMap<string, KubeObject | undefined>): Flow {
  const problems: { reason: ResolutionError['reason']; text: string }[] = []
  const values = new Map<SecretUse, string>()
  for (const use of flow.secrets) {
    const found = readValue(use, place, secrets)
    if ('value' in found) values.set(use, found.value)
    else problems.push(found)
  }
  throwProblems(problems)
  const resolved = resolveSecrets(flow, (_ref, use) => values.get(use) ?? '')
  const checked = normalize(printSpec(resolved), { kind: flow.kind, patterns: re2, ...place })
  const redact = createRedact([...values.values()])
  throwProblems(checked.problems.map((problem) => ({ reason: 'ResolutionFailed' as const, text: redact(printProblem(problem)) })))
  return resolved
}

type Found = { readonly value: string } | { readonly reason: ResolutionError['reason']; readonly text: string }

function readValue({ ref, path }: SecretUse, place: FlowPlace, secrets: ReadonlyMap<string, KubeObject | undefined>): Found {
  const namespace = ref.namespace ?? place.namespace
  const secret = secrets.get(`${namespace}/${ref.name}`)
  const isForeign = namespace !== place.namespace
  // A Secret that is absent and one that is not shared look the same, so that no flow can probe other namespaces.
  if (isForeign && !isSharedWith(secret, place.namespace))
    return { reason: 'NotShared', text: printProblem(notShared(path, { namespace, name: ref.name }, place.namespace)) }
  if (secret === undefined) return { reason: 'ResolutionFailed', text: `${path}: secret ${namespace}/${ref.name} does not exist` }
  const encoded = isFields(secret.data) ? secret.data[ref.key] : undefined
  if (typeof encoded !== 'string')
    return { reason: 'ResolutionFailed', text: `${path}: secret ${namespace}/${ref.name} has no key ${ref.key}` }
  const value = Buffer.from(encoded, 'base64').toString('utf8')
  if (value.trim() === '')
    return { reason: 'ResolutionFailed', text: `${path}: key ${ref.key} of secret ${namespace}/${ref.name} is empty` }
  return { value: value.replace(/\r?\n$/, '') }
}

function isSharedWith(secret: KubeObject | undefined, namespace: string): boolean {
  const granted = secret?.metadata.annotations?.[annotation.shareWith] ?? ''
  return granted
    .split(',')
    .map((entry) => entry.trim())
    .some((entry) => entry === '*' || entry === namespace)
}

function throwProblems(problems: readonly { reason: ResolutionError['reason']; text: string }[]): void {
  if (problems.length === 0) return
  const reason = problems.some((problem) => problem.reason === 'NotShared') ? 'NotShared' : 'ResolutionFailed'
  throw new ResolutionError(reason, problems.map(({ text }) => text).join('; '))
}

/** Shorter values would match ordinary words. */
const lengthMin = 3

function createRedact(values: readonly string[]): (text: string) => string {
  const longestFirst = [...new Set(values)].filter(({ length }) => length >= lengthMin).toSorted((a, b) => b.length - a.length)
  return (text) => longestFirst.reduce((rest, value) => rest.replaceAll(value, mask), text)
}
