// Locations inside an object by JSON pointer (RFC 6901), and the same locations in the field trees of server-side apply. JSON pointers address
// list items by index, field trees by key, so both are walked together. Pure.
import { isFields } from '../client/fields.ts'
import type { Fields, KubeObject, ManagedFieldsEntry } from '../client/object.ts'

/** `/metadata/annotations/a.b~1c` → its steps; undefined if the text is not a pointer below the root. */
export function parsePointer(text: string): string[] | undefined {
  if (!text.startsWith('/') || /~(?![01])/.test(text)) return undefined
  return text
    .slice(1)
    .split('/')
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
}

export const toPointer = (steps: readonly (string | number)[]): string =>
  steps.map((step) => `/${String(step).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')

/** Returns a copy without the value at the path, or the same object if there is none. Other list items keep their index while walking. */
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

/** Returns the manager that last wrote the path or a parent of it, without writers of status. */
export function findFieldOwner(object: KubeObject, steps: readonly string[]): ManagedFieldsEntry | undefined {
  const owners = (object.metadata.managedFields ?? []).filter(
    (entry) => entry.subresource !== 'status' && isFields(entry.fieldsV1) && owns(entry.fieldsV1, object, steps),
  )
  return owners.toSorted((a, b) => (a.time ?? '').localeCompare(b.time ?? '')).at(-1)
}

export function owns(fields: Fields, value: unknown, steps: readonly string[]): boolean {
  const [step, ...rest] = steps
  // A leaf of the tree owns everything below it.
  if (step === undefined || isLeaf(fields)) return true
  const key = fieldKey(fields, value, step)
  const inner = key === undefined ? undefined : fields[key]
  return isFields(inner) && owns(inner, getInnerValue(value, step), rest)
}

const isLeaf = (fields: Fields): boolean => Object.keys(fields).every((key) => key === '.')

/** Returns the tree without the path and without empty branches; undefined if the tree becomes empty. */
export function withoutOwnedPath(fields: Fields, value: unknown, steps: readonly string[]): Fields | undefined {
  const [step, ...rest] = steps
  if (step === undefined) return undefined
  const key = fieldKey(fields, value, step)
  const inner = key === undefined ? undefined : fields[key]
  if (key === undefined || !isFields(inner)) return fields
  const { [key]: _inner, ...others } = fields
  const remainingFields = rest.length === 0 || isLeaf(inner) ? undefined : withoutOwnedPath(inner, getInnerValue(value, step), rest)
  const remaining = remainingFields === undefined ? others : { ...others, [key]: remainingFields }
  return Object.keys(remaining).length === 0 ? undefined : remaining
}

const getInnerValue = (value: unknown, step: string): unknown =>
  typeof value === 'object' && value !== null ? (value as Fields)[step] : undefined

/** `f:name` for a map; for a list the key of the item that is at the index now. */
function fieldKey(fields: Fields, value: unknown, step: string): string | undefined {
  if (!Array.isArray(value)) return Object.hasOwn(fields, `f:${step}`) ? `f:${step}` : undefined
  const item: unknown = value[Number(step)]
  return Object.keys(fields).find((key) => (key.startsWith('k:') && hasKeys(item, key)) || key === `v:${JSON.stringify(item)}`)
}

function hasKeys(item: unknown, key: string): boolean {
  try {
    const listKey: unknown = JSON.parse(key.slice(2))
    return isFields(listKey) && isFields(item) && Object.entries(listKey).every(([name, value]) => item[name] === value)
  } catch {
    return false
  }
}
