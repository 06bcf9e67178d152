// Fields that others are to set: named by an annotation of the manifest, and the replicas of what an autoscaler of the same stack
// scales. They are cut from what is applied. Pure.
import { parsePointer, withoutPath } from '@brokkr/kube/field-path.ts'
import { textAt } from '@brokkr/kube/fields.ts'
import { describeRef, groupKindText, groupOf, type KubeObject, refOf } from '@brokkr/kube/object.ts'
import { IGNORE_FIELDS } from './marks.ts'
import { invalid, type Problem } from './problem.ts'

export type Path = readonly string[]
const replicas: Path = ['spec', 'replicas']
/** Without them it would be another object, or none of ours. */
const essential = [['apiVersion'], ['kind'], ['metadata'], ['metadata', 'name'], ['metadata', 'namespace'], ['metadata', 'labels']]
const pathsMax = 100

export type Ignored = { readonly ok: true; readonly paths: readonly Path[] } | { readonly ok: false; readonly problem: Problem }

export function ignoredFields(object: KubeObject): Ignored {
  const texts = (object.metadata.annotations?.[IGNORE_FIELDS] ?? '').split(',').map((text) => text.trim())
  const named = texts.filter((text) => text !== '')
  const paths = named.map((text) => parsePointer(text))
  const wrong = named.filter((_, index) => !isAllowed(paths[index]))
  if (named.length > pathsMax) return refused(object, `names more than ${pathsMax} fields`)
  if (wrong.length > 0)
    return refused(object, `${wrong.map((text) => JSON.stringify(text)).join(', ')}: name fields as in /spec/replicas, separated by commas`)
  return { ok: true, paths: paths.filter((path) => path !== undefined) }
}

const isAllowed = (path: Path | undefined): boolean =>
  path !== undefined && !essential.some((steps) => steps.length === path.length && steps.every((step, index) => step === path[index]))

const refused = (object: KubeObject, why: string): Ignored => ({
  ok: false,
  problem: { ...invalid(`${describeRef(refOf(object))}: annotation ${IGNORE_FIELDS}: ${why}`), ref: refOf(object) },
})

export const cutFields = (object: KubeObject, paths: readonly Path[]): KubeObject =>
  // Later items of a list first, so that the earlier ones keep their index.
  paths.toSorted((a, b) => b.join('/').localeCompare(a.join('/'), 'en', { numeric: true })).reduce<KubeObject>(withoutPath, object)

/** What the autoscalers of this set scale, by `Kind.group|namespace|name`; each in its own namespace. */
export function scaledBy(objects: readonly KubeObject[]): ReadonlySet<string> {
  const scalers = objects.filter(({ kind, apiVersion }) => kind === 'HorizontalPodAutoscaler' && groupOf(apiVersion) === 'autoscaling')
  return new Set(
    scalers.map((scaler) => {
      const target = (key: string) => textAt(scaler, 'spec', 'scaleTargetRef', key) ?? ''
      const kind = groupKindText({ group: groupOf(target('apiVersion')), kind: target('kind') })
      return `${kind}|${scaler.metadata.namespace ?? ''}|${target('name')}`
    }),
  )
}

export const scaledPaths = (key: string, scaled: ReadonlySet<string>): readonly Path[] => (scaled.has(key) ? [replicas] : [])
