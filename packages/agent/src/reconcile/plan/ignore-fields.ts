// Fields that other managers set: named by an annotation, and the replicas of targets of an autoscaler of the same stack. They are
// removed from the applied object. Pure.
import { describeRef, groupKindText, groupOf, type KubeObject, parsePointer, refOf, textAt, withoutPath } from '@brokkr/kube'
import { type Problem, toInvalidProblem } from '../problem.ts'
import { IGNORE_FIELDS } from './ownership-metadata.ts'

export type Path = readonly string[]
const replicas: Path = ['spec', 'replicas']
/** Without these fields it would be another object or lose its ownership metadata. */
const essential = [['apiVersion'], ['kind'], ['metadata'], ['metadata', 'name'], ['metadata', 'namespace'], ['metadata', 'labels']]
const pathsMax = 100

export type IgnoredFields = { readonly ok: true; readonly paths: readonly Path[] } | { readonly ok: false; readonly problem: Problem }

export function parseIgnoredFields(object: KubeObject): IgnoredFields {
  const texts = (object.metadata.annotations?.[IGNORE_FIELDS] ?? '').split(',').map((text) => text.trim())
  const nonEmptyTexts = texts.filter((text) => text !== '')
  const paths = nonEmptyTexts.map((text) => parsePointer(text))
  const wrong = nonEmptyTexts.filter((_, index) => !isAllowed(paths[index]))
  if (nonEmptyTexts.length > pathsMax) return refused(object, `names more than ${pathsMax} fields`)
  if (wrong.length > 0)
    return refused(object, `${wrong.map((text) => JSON.stringify(text)).join(', ')}: name fields as in /spec/replicas, separated by commas`)
  return { ok: true, paths: paths.filter((path) => path !== undefined) }
}

const isAllowed = (path: Path | undefined): boolean =>
  path !== undefined && !essential.some((steps) => steps.length === path.length && steps.every((step, index) => step === path[index]))

const refused = (object: KubeObject, why: string): IgnoredFields => ({
  ok: false,
  problem: { ...toInvalidProblem(`${describeRef(refOf(object))}: annotation ${IGNORE_FIELDS}: ${why}`), ref: refOf(object) },
})

export const cutFields = (object: KubeObject, paths: readonly Path[]): KubeObject =>
  // Removes later list items first, so that earlier ones keep their index.
  paths.toSorted((a, b) => b.join('/').localeCompare(a.join('/'), 'en', { numeric: true })).reduce<KubeObject>(withoutPath, object)

/** Targets of the autoscalers of this set, by `Kind.group|namespace|name`. */
export function findScaledTargets(objects: readonly KubeObject[]): ReadonlySet<string> {
  const scalers = objects.filter(({ kind, apiVersion }) => kind === 'HorizontalPodAutoscaler' && groupOf(apiVersion) === 'autoscaling')
  return new Set(
    scalers.map((scaler) => {
      const target = (key: string) => textAt(scaler, 'spec', 'scaleTargetRef', key) ?? ''
      const kind = groupKindText({ group: groupOf(target('apiVersion')), kind: target('kind') })
      return `${kind}|${scaler.metadata.namespace ?? ''}|${target('name')}`
    }),
  )
}

export const listScaledPaths = (key: string, scaled: ReadonlySet<string>): readonly Path[] => (scaled.has(key) ? [replicas] : [])
