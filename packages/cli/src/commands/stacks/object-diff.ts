// Compares two manifests object by object and field by field. Values of Secrets are masked. Pure.
import { type JsonObject, type JsonValue, parseManifest } from '@brokkr/contract/manifest/manifest.ts'

export interface FieldDifference {
  readonly path: string
  readonly before: string | null
  readonly after: string | null
}
export interface ObjectDifference {
  readonly kind: string
  readonly namespace: string | null
  readonly name: string
  readonly change: 'added' | 'changed' | 'removed'
  readonly fields: readonly FieldDifference[]
}

export function compareManifests(before: string, after: string): ObjectDifference[] {
  const [old, next] = [indexObjects(before), indexObjects(after)]
  const keys = [...new Set([...old.keys(), ...next.keys()])].toSorted()
  return keys.flatMap((key) => compareObjects(old.get(key) ?? null, next.get(key) ?? null))
}

function indexObjects(text: string): Map<string, JsonObject> {
  return new Map(parseManifest(text).map(({ object }) => [Object.values(identify(object)).join(' '), object]))
}

function identify(object: JsonObject): { kind: string; namespace: string | null; name: string } {
  const metadata = (object['metadata'] ?? {}) as Record<string, JsonValue>
  const text = (value: JsonValue | undefined) => (typeof value === 'string' ? value : '')
  const namespace = text(metadata['namespace'])
  return { kind: text(object['kind']), namespace: namespace === '' ? null : namespace, name: text(metadata['name']) }
}

function compareObjects(before: JsonObject | null, after: JsonObject | null): ObjectDifference[] {
  const identity = identify((after ?? before)!)
  if (before === null) return [{ ...identity, change: 'added', fields: [] }]
  if (after === null) return [{ ...identity, change: 'removed', fields: [] }]
  const isSecret = identity.kind === 'Secret'
  const [old, next] = [flatten(before, isSecret), flatten(after, isSecret)]
  const paths = [...new Set([...old.keys(), ...next.keys()])].toSorted()
  const fields = paths
    .filter((path) => old.get(path)?.text !== next.get(path)?.text)
    .map((path) => ({ path, before: old.get(path)?.shown ?? null, after: next.get(path)?.shown ?? null }))
  return fields.length === 0 ? [] : [{ ...identity, change: 'changed', fields }]
}

interface Leaf {
  readonly text: string
  readonly shown: string
}

/** Path of every leaf; the paths of list items contain their position. */
function flatten(object: JsonObject, isSecret: boolean): Map<string, Leaf> {
  const leaves = new Map<string, Leaf>()
  const visit = (value: JsonValue, path: string): void => {
    if (Array.isArray(value) && value.length > 0) value.forEach((item, at) => visit(item, `${path}[${at}]`))
    else if (isNested(value)) for (const [key, item] of Object.entries(value)) visit(item, `${path}.${key}`)
    else {
      const text = JSON.stringify(value)
      leaves.set(path, { text, shown: isSecret && /^\.(data|stringData)\b/.test(path) ? '***' : text })
    }
  }
  visit(object, '')
  return leaves
}

const isNested = (value: JsonValue): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length > 0

/** `~ Deployment shop/web` with a line per field. */
export function differenceLines(differences: readonly ObjectDifference[]): string[] {
  const marks = { added: '+', changed: '~', removed: '-' }
  return differences.flatMap(({ kind, namespace, name, change, fields }) => [
    `${marks[change]} ${kind} ${namespace === null ? name : `${namespace}/${name}`}`,
    ...fields.map(({ path, before, after }) => `    ${path}  ${before ?? '(none)'} → ${after ?? '(none)'}`),
  ])
}
