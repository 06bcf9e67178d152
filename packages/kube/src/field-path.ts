// Places inside an object by JSON pointer (RFC 6901), and the same places in the tree of fields that server-side apply keeps per
// manager. Lists are addressed by index on our side and by key on the server's, so both are walked together. Pure.
import { isFields } from './fields.ts'
import type { Fields, KubeObject, ManagedFieldsEntry } from './object.ts'

/** `/metadata/annotations/a.b~1c` → its steps; undefined for a text that is no pointer below the root. */
export function parsePointer(text: string): string[] | undefined {
  if (!text.startsWith('/') || /~(?![01])/.test(text)) return undefined
  return text
    .slice(1)
    .split('/')
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
}

export const pointerOf = (steps: readonly (string | number)[]): string =>
  steps.map((step) => `/${String(step).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')

/** A copy without what stands at the place; the same object when nothing stands there. Items of a list do not move up. */
export function withoutPath<T>(value: T, steps: readonly string[]): T {
  const [step, ...rest] = steps
  if (step === undefined || typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return value
  if (Array.isArray(value)) {
    if (rest.length === 0) return value.filter((_, index) => String(index) !== step) as T
    return value.map((item: unknown, index) => (String(index) === step ? withoutPath(item, rest) : item)) as T
  }
  const { [step]: inner, ...others } = value as Fields
  return (rest.length === 0 ? others : { ...others, [step]: withoutPath(inner, rest) }) as T
}

/** The last to write the place among those that own it, or own a whole of which it is a part; status writers apart. */
export function ownerOf(object: KubeObject, steps: readonly string[]): ManagedFieldsEntry | undefined {
  const owners = (object.metadata.managedFields ?? []).filter(
    (entry) => entry.subresource !== 'status' && isFields(entry.fieldsV1) && owns(entry.fieldsV1, object, steps),
  )
  return owners.toSorted((a, b) => (a.time ?? '').localeCompare(b.time ?? '')).at(-1)
}

export function owns(fields: Fields, value: unknown, steps: readonly string[]): boolean {
  const [step, ...rest] = steps
  // A leaf of the tree stands for everything below it.
  if (step === undefined || isLeaf(fields)) return true
  const key = fieldKey(fields, value, step)
  const inner = key === undefined ? undefined : fields[key]
  return isFields(inner) && owns(inner, innerOf(value, step), rest)
}

const isLeaf = (fields: Fields): boolean => Object.keys(fields).every((key) => key === '.')

/** The tree without the place and without branches that hold nothing more; undefined when nothing is left. */
export function disowned(fields: Fields, value: unknown, steps: readonly string[]): Fields | undefined {
  const [step, ...rest] = steps
  if (step === undefined) return undefined
  const key = fieldKey(fields, value, step)
  const inner = key === undefined ? undefined : fields[key]
  if (key === undefined || !isFields(inner)) return fields
  const { [key]: _inner, ...others } = fields
  const left = rest.length === 0 || isLeaf(inner) ? undefined : disowned(inner, innerOf(value, step), rest)
  const kept = left === undefined ? others : { ...others, [key]: left }
  return Object.keys(kept).length === 0 ? undefined : kept
}

const innerOf = (value: unknown, step: string): unknown =>
  typeof value === 'object' && value !== null ? (value as Fields)[step] : undefined

/** `f:name` of a map; of a list the key of the item that stands at the index now. */
function fieldKey(fields: Fields, value: unknown, step: string): string | undefined {
  if (!Array.isArray(value)) return Object.hasOwn(fields, `f:${step}`) ? `f:${step}` : undefined
  const item: unknown = value[Number(step)]
  return Object.keys(fields).find((key) => (key.startsWith('k:') && hasKeys(item, key)) || key === `v:${JSON.stringify(item)}`)
}

function hasKeys(item: unknown, key: string): boolean {
  try {
    const wanted: unknown = JSON.parse(key.slice(2))
    return isFields(wanted) && isFields(item) && Object.entries(wanted).every(([name, value]) => item[name] === value)
  } catch {
    return false
  }
}
