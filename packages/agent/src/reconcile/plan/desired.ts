// Manifest → desired objects: parsed, checked, with namespace and ownership metadata. Pure: the scope of each kind is a parameter.
// Reports all problems at once.
import { parseManifest } from '@brokkr/contract/manifest/manifest.ts'
import { ManifestError } from '@brokkr/contract/manifest/manifest-error.ts'
import {
  describeRef,
  type Failure,
  groupKindOf,
  groupKindText,
  identityKey,
  identityOf,
  isCrd,
  isFields,
  type Kind,
  type KubeObject,
  readCrdKind,
  refOf,
  textAt,
} from '@brokkr/kube'
import { findPolicyRefusal, type Grant, grantsNeeded, type Policy, toGrantRefusal } from '../../policy/policy.ts'
import { combineProblems, type Problem, toInvalidProblem, toProblem } from '../problem.ts'
import { cutFields, findScaledTargets, listScaledPaths, type Path, parseIgnoredFields } from './ignore-fields.ts'
import { addOwnershipMetadata, HASH_ANNOTATION, type MarkedObject, type OwnershipMetadata } from './ownership-metadata.ts'

/** `object` is applied to an existing object. */
export interface DesiredObject extends MarkedObject {
  readonly key: string
  /** Applied if the object does not exist: an autoscaler needs an initial replica count. */
  readonly fresh: KubeObject
  /** Fields that other managers set; the agent must not own them. */
  readonly ignored: readonly Path[]
  /** With the ignored fields, as in the manifest. */
  readonly uncut: KubeObject
}
export type ParsedObjects =
  | { readonly ok: true; readonly objects: readonly KubeObject[] }
  | { readonly ok: false; readonly problem: Problem }
export type DesiredResult =
  | { readonly ok: true; readonly objects: readonly DesiredObject[] }
  | { readonly ok: false; readonly problem: Problem }
export type ScopeOfKind = 'namespaced' | 'cluster'
/** A failure: the API server does not serve the kind or does not respond. */
export type Scope = (kind: Kind) => ScopeOfKind | Failure

/** Documents of a manifest as objects, each with apiVersion, kind and name. */
export function parseObjects(text: string): ParsedObjects {
  try {
    const documents = parseManifest(text)
    const problems = documents.flatMap(({ object, place, line }) =>
      shapeProblem(object).map((what) => toInvalidProblem(`${place} (line ${line}): ${what}`)),
    )
    if (problems.length > 0) return { ok: false, problem: combineProblems(problems) }
    return { ok: true, objects: documents.map(({ object }) => object as unknown as KubeObject) }
  } catch (error) {
    if (error instanceof ManifestError) return { ok: false, problem: toInvalidProblem(error.message) }
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
  readonly metadata: OwnershipMetadata
  readonly policy: Policy
  readonly scope: Scope
  readonly defaultNamespace: string
  readonly grants: readonly Grant[]
  /** Name of the generator, for messages. */
  readonly generator: string
}

export function toDesiredObjects(objects: readonly KubeObject[], rules: DesiredRules): DesiredResult {
  const placed = placeObjects(objects, rules)
  const ignored = placed.map(({ object }) => parseIgnoredFields(object))
  const problems = [
    ...placed.flatMap(({ object, scope }) => policyProblem(object, toKnownScope(scope), rules)),
    ...findDuplicates(placed.map(({ object }) => object)),
    ...placed.flatMap(({ object, scope }) => (typeof scope === 'string' ? [] : [toProblem(scope, refOf(object))])),
    ...ignored.flatMap((found) => (found.ok ? [] : [found.problem])),
  ]
  if (problems.length > 0) return { ok: false, problem: combineProblems(problems) }
  const scaled = findScaledTargets(placed.map(({ object }) => object))
  const paths = ignored.map((found) => (found.ok ? found.paths : []))
  return { ok: true, objects: placed.map(({ object }, index) => desiredObject(object, paths[index] ?? [], scaled, rules.metadata)) }
}

/** Adds namespace and scope to each object. */
export function placeObjects(
  objects: readonly KubeObject[],
  rules: Pick<DesiredRules, 'scope' | 'defaultNamespace'>,
): { readonly object: KubeObject; readonly scope: ScopeOfKind | Failure }[] {
  const getScope = withOwnDefinitions(objects, rules.scope)
  return objects.map((object) => {
    const scope = getScope(object)
    return { object: withNamespace(object, toKnownScope(scope), rules.defaultNamespace), scope }
  })
}

const toKnownScope = (scope: ScopeOfKind | Failure): ScopeOfKind | undefined => (typeof scope === 'string' ? scope : undefined)

function desiredObject(uncut: KubeObject, paths: readonly Path[], scaled: ReadonlySet<string>, marks: OwnershipMetadata): DesiredObject {
  const key = identityKey(identityOf(uncut))
  const ignored = [...paths, ...listScaledPaths(key, scaled)]
  const stamped = addOwnershipMetadata(cutFields(uncut, ignored), marks)
  if (ignored.length === paths.length) return { ...stamped, key, fresh: stamped.object, ignored, uncut }
  const { object } = addOwnershipMetadata(cutFields(uncut, paths), marks)
  const annotations = { ...object.metadata.annotations, [HASH_ANNOTATION]: stamped.hash }
  return { ...stamped, key, fresh: { ...object, metadata: { ...object.metadata, annotations } }, ignored, uncut }
}

/** A definition in the set names the scope of its kind before the API server serves it. */
export function withOwnDefinitions(objects: readonly KubeObject[], outside: Scope): Scope {
  const definedScopes = new Map(objects.filter(isCrd).map((crd) => [groupKindText(readCrdKind(crd)), textAt(crd, 'spec', 'scope')]))
  return (kind) => {
    const scope = definedScopes.get(groupKindText(groupKindOf(kind)))
    return scope === undefined ? outside(kind) : scope === 'Cluster' ? 'cluster' : 'namespaced'
  }
}

function withNamespace(object: KubeObject, scope: ScopeOfKind | undefined, defaultNamespace: string): KubeObject {
  const { namespace, ...metadata } = object.metadata
  if (scope === 'cluster') return { ...object, metadata }
  // An unknown kind stays as written: a guessed scope would only change the error.
  const into = namespace || (scope === 'namespaced' ? defaultNamespace : undefined)
  return { ...object, metadata: { ...metadata, ...(into ? { namespace: into } : {}) } }
}

function findDuplicates(objects: readonly KubeObject[]): Problem[] {
  const keys = new Set<string>()
  return objects.flatMap((object) => {
    const key = identityKey(identityOf(object))
    if (!keys.has(key)) {
      keys.add(key)
      return []
    }
    return [{ ...toInvalidProblem(`${describeRef(refOf(object))} stands in the manifest twice: keep one of them`), ref: refOf(object) }]
  })
}

function policyProblem(object: KubeObject, scope: ScopeOfKind | undefined, rules: DesiredRules): Problem[] {
  const missing = grantsNeeded(object, scope).filter((grant) => !rules.grants.includes(grant))
  const refusal =
    findPolicyRefusal(object, rules.policy, scope) ?? (missing.length > 0 ? toGrantRefusal(object, missing, rules.generator) : null)
  return refusal ? [{ phase: 'failed', ...refusal, ref: refOf(object) }] : []
}
