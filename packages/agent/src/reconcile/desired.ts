// From the text of a deployment object to the objects that should stand in the cluster: parsed, checked, put into a namespace,
// marked. Pure: what it must know of the cluster, the scope of each kind, is handed in. All problems are told at once.
import { parseManifest } from '@brokkr/contract/manifest.ts'
import { ManifestError } from '@brokkr/contract/manifest-error.ts'
import { isCrd, kindOfCrd } from '@brokkr/kube/crd.ts'
import { isFields, textAt } from '@brokkr/kube/fields.ts'
import { describeRef, groupKindOf, groupKindText, identityKey, identityOf, type Kind, type KubeObject, refOf } from '@brokkr/kube/object.ts'
import { type Policy, refuse } from '../policy.ts'
import { type Marks, type Stamped, stamp } from './marks.ts'
import { combine, invalid, type Problem } from './problem.ts'

export interface DesiredObject extends Stamped {
  readonly key: string
}
export type Read = { readonly ok: true; readonly objects: readonly KubeObject[] } | { readonly ok: false; readonly problem: Problem }
export type Desired = { readonly ok: true; readonly objects: readonly DesiredObject[] } | { readonly ok: false; readonly problem: Problem }
/** By `apiVersion|kind`; undefined: nobody knows, and the API server will say so. */
export type Scope = (kind: Kind) => 'namespaced' | 'cluster' | undefined

/** The documents of a manifest as objects, each with apiVersion, kind and name. */
export function readObjects(text: string): Read {
  try {
    const documents = parseManifest(text)
    const problems = documents.flatMap(({ object, place, line }) =>
      shapeProblem(object).map((what) => invalid(`${place} (line ${line}): ${what}`)),
    )
    if (problems.length > 0) return { ok: false, problem: combine(problems) }
    return { ok: true, objects: documents.map(({ object }) => object as unknown as KubeObject) }
  } catch (error) {
    if (error instanceof ManifestError) return { ok: false, problem: invalid(error.message) }
    throw error
  }
}

function shapeProblem(object: object): string[] {
  const missing = (['apiVersion', 'kind'] as const).filter((key) => !textAt(object, key)).map((key) => `${key} is missing`)
  const metadata: unknown = Reflect.get(object, 'metadata')
  if (!isFields(metadata)) return [...missing, 'metadata is missing']
  const name = textAt(metadata, 'name') ? [] : ['metadata.name is missing']
  const maps = ['labels', 'annotations'].filter((key) => metadata[key] !== undefined && metadata[key] !== null && !isTextMap(metadata[key]))
  const namespace =
    metadata['namespace'] === undefined || metadata['namespace'] === null || typeof metadata['namespace'] === 'string'
      ? []
      : ['metadata.namespace is not a text']
  return [...missing, ...name, ...namespace, ...maps.map((key) => `metadata.${key} is not a map of texts`)]
}

const isTextMap = (value: unknown): boolean => isFields(value) && Object.values(value).every((item) => typeof item === 'string')

export interface DesiredRules {
  readonly marks: Marks
  readonly policy: Policy
  readonly scope: Scope
  readonly defaultNamespace: string
}

export function desiredObjects(objects: readonly KubeObject[], rules: DesiredRules): Desired {
  const scope = scopeWithin(objects, rules.scope)
  const placed = objects.map((object) => inNamespace(object, scope, rules.defaultNamespace))
  const problems = [...duplicates(placed), ...placed.flatMap((object) => policyProblem(object, rules.policy))]
  if (problems.length > 0) return { ok: false, problem: combine(problems) }
  return { ok: true, objects: placed.map((object) => ({ ...stamp(object, rules.marks), key: identityKey(identityOf(object)) })) }
}

/** A definition in the set tells the scope of its kind before the API server knows it. */
function scopeWithin(objects: readonly KubeObject[], outside: Scope): Scope {
  const own = new Map(objects.filter(isCrd).map((crd) => [groupKindText(kindOfCrd(crd)), textAt(crd, 'spec', 'scope')]))
  return (kind) => {
    const known = own.get(groupKindText(groupKindOf(kind)))
    return known === undefined ? outside(kind) : known === 'Cluster' ? 'cluster' : 'namespaced'
  }
}

function inNamespace(object: KubeObject, scope: Scope, defaultNamespace: string): KubeObject {
  const { namespace, ...metadata } = object.metadata
  const at = scope(object)
  if (at === 'cluster') return { ...object, metadata }
  // An unknown kind is left as it was written: guessing its scope would only change the error.
  const into = namespace || (at === 'namespaced' ? defaultNamespace : undefined)
  return { ...object, metadata: { ...metadata, ...(into ? { namespace: into } : {}) } }
}

function duplicates(objects: readonly KubeObject[]): Problem[] {
  const seen = new Set<string>()
  return objects.flatMap((object) => {
    const key = identityKey(identityOf(object))
    if (!seen.has(key)) {
      seen.add(key)
      return []
    }
    return [{ ...invalid(`${describeRef(refOf(object))} stands in the manifest twice: keep one of them`), ref: refOf(object) }]
  })
}

function policyProblem(object: KubeObject, policy: Policy): Problem[] {
  const refusal = refuse(object, policy)
  return refusal ? [{ phase: 'failed', ...refusal, ref: refOf(object) }] : []
}
