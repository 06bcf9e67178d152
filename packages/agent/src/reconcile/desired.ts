// From the text of a deployment object to the objects that should stand in the cluster: parsed, checked, put into a namespace,
// marked. Pure: what it must know of the cluster, the scope of each kind, is handed in. All problems are told at once.
import { parseManifest } from '@brokkr/contract/manifest.ts'
import { ManifestError } from '@brokkr/contract/manifest-error.ts'
import { isCrd, kindOfCrd } from '@brokkr/kube/crd.ts'
import type { Failure } from '@brokkr/kube/failure.ts'
import { isFields, textAt } from '@brokkr/kube/fields.ts'
import { describeRef, groupKindOf, groupKindText, identityKey, identityOf, type Kind, type KubeObject, refOf } from '@brokkr/kube/object.ts'
import { denied, type Grant, grantsNeeded, type Policy, refuse } from '../policy.ts'
import { cutFields, ignoredFields, type Path, scaledBy, scaledPaths } from './ignore-fields.ts'
import { HASH_ANNOTATION, type Marks, type Stamped, stamp } from './marks.ts'
import { combine, invalid, type Problem, problemOf } from './problem.ts'

/** `object` is what is applied to one that exists. */
export interface DesiredObject extends Stamped {
  readonly key: string
  /** What is applied where there is none yet: an autoscaler needs a number to begin with. */
  readonly fresh: KubeObject
  /** Fields that others set; we must not own them. */
  readonly ignored: readonly Path[]
  /** With the ignored fields, as the manifest has it. */
  readonly uncut: KubeObject
}
export type Read = { readonly ok: true; readonly objects: readonly KubeObject[] } | { readonly ok: false; readonly problem: Problem }
export type Desired = { readonly ok: true; readonly objects: readonly DesiredObject[] } | { readonly ok: false; readonly problem: Problem }
export type ScopeOfKind = 'namespaced' | 'cluster'
/** A failure: the API server does not serve the kind, or does not say. */
export type Scope = (kind: Kind) => ScopeOfKind | Failure

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
  readonly grants: readonly Grant[]
  /** For messages. */
  readonly generator: string
}

export function desiredObjects(objects: readonly KubeObject[], rules: DesiredRules): Desired {
  const placed = placedObjects(objects, rules)
  const ignored = placed.map(({ object }) => ignoredFields(object))
  const problems = [
    ...placed.flatMap(({ object, scope }) => policyProblem(object, known(scope), rules)),
    ...duplicates(placed.map(({ object }) => object)),
    ...placed.flatMap(({ object, scope }) => (typeof scope === 'string' ? [] : [problemOf(scope, refOf(object))])),
    ...ignored.flatMap((found) => (found.ok ? [] : [found.problem])),
  ]
  if (problems.length > 0) return { ok: false, problem: combine(problems) }
  const scaled = scaledBy(placed.map(({ object }) => object))
  const paths = ignored.map((found) => (found.ok ? found.paths : []))
  return { ok: true, objects: placed.map(({ object }, index) => desiredObject(object, paths[index] ?? [], scaled, rules.marks)) }
}

/** Each in its namespace, with the scope of its kind. */
export function placedObjects(
  objects: readonly KubeObject[],
  rules: Pick<DesiredRules, 'scope' | 'defaultNamespace'>,
): { readonly object: KubeObject; readonly scope: ScopeOfKind | Failure }[] {
  const scopeOf = scopeWithin(objects, rules.scope)
  return objects.map((object) => {
    const scope = scopeOf(object)
    return { object: inNamespace(object, known(scope), rules.defaultNamespace), scope }
  })
}

const known = (scope: ScopeOfKind | Failure): ScopeOfKind | undefined => (typeof scope === 'string' ? scope : undefined)

function desiredObject(uncut: KubeObject, paths: readonly Path[], scaled: ReadonlySet<string>, marks: Marks): DesiredObject {
  const key = identityKey(identityOf(uncut))
  const ignored = [...paths, ...scaledPaths(key, scaled)]
  const stamped = stamp(cutFields(uncut, ignored), marks)
  if (ignored.length === paths.length) return { ...stamped, key, fresh: stamped.object, ignored, uncut }
  const { object } = stamp(cutFields(uncut, paths), marks)
  const annotations = { ...object.metadata.annotations, [HASH_ANNOTATION]: stamped.hash }
  return { ...stamped, key, fresh: { ...object, metadata: { ...object.metadata, annotations } }, ignored, uncut }
}

/** A definition in the set tells the scope of its kind before the API server knows it. */
export function scopeWithin(objects: readonly KubeObject[], outside: Scope): Scope {
  const own = new Map(objects.filter(isCrd).map((crd) => [groupKindText(kindOfCrd(crd)), textAt(crd, 'spec', 'scope')]))
  return (kind) => {
    const scope = own.get(groupKindText(groupKindOf(kind)))
    return scope === undefined ? outside(kind) : scope === 'Cluster' ? 'cluster' : 'namespaced'
  }
}

function inNamespace(object: KubeObject, scope: ScopeOfKind | undefined, defaultNamespace: string): KubeObject {
  const { namespace, ...metadata } = object.metadata
  if (scope === 'cluster') return { ...object, metadata }
  // An unknown kind is left as it was written: guessing its scope would only change the error.
  const into = namespace || (scope === 'namespaced' ? defaultNamespace : undefined)
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

function policyProblem(object: KubeObject, scope: ScopeOfKind | undefined, rules: DesiredRules): Problem[] {
  const missing = grantsNeeded(object, scope).filter((grant) => !rules.grants.includes(grant))
  const refusal = refuse(object, rules.policy, scope) ?? (missing.length > 0 ? denied(object, missing, rules.generator) : null)
  return refusal ? [{ phase: 'failed', ...refusal, ref: refOf(object) }] : []
}
