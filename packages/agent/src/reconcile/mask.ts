// Takes what is secret out of whatever leaves this cluster: texts that others wrote, because a refusal may quote what it refused,
// and differences between two forms of an object. Names of keys stay. Whatever holds a Secret counts, however deep.
import { createHmac, randomBytes } from 'node:crypto'
import { parsePointer } from '@brokkr/kube/field-path.ts'
import { isFields, valueAt } from '@brokkr/kube/fields.ts'
import { encodeJson } from '@brokkr/kube/json.ts'
import type { Fields, KubeObject } from '@brokkr/kube/object.ts'
import { changedPaths } from './field-diff.ts'

/** One place that differs; a side is absent where nothing stands. */
export interface MaskedChange {
  readonly path: string
  readonly before?: unknown
  readonly after?: unknown
}

/** A secret value shows as `***#` and a mark: equal marks are equal values within one plan, and tell nothing beyond it. */
export function maskedDiff(before: KubeObject, after: KubeObject, max: number, planKey: Buffer = randomBytes(32)): MaskedChange[] {
  const mark = (value: unknown) => `***#${createHmac('sha256', planKey).update(encodeJson(value)).digest('hex').slice(0, 12)}`
  const [left, right] = [masked(before, mark), masked(after, mark)] as [KubeObject, KubeObject]
  return changedPaths(left, right, max).map((path) => {
    const steps = parsePointer(path) ?? []
    const [was, is] = [valueAt(left, ...steps), valueAt(right, ...steps)]
    return { path, ...(was === undefined ? {} : { before: was }), ...(is === undefined ? {} : { after: is }) }
  })
}

/** The text without any value of a Secret in these objects, in whichever form somebody may have quoted it. */
export function maskText(text: string, objects: readonly KubeObject[]): string {
  const values: string[] = []
  masked(objects, (value) => values.push(...formsOf(value)))
  const longFirst = [...new Set(values)].filter((value) => value.length >= charsMin).toSorted((a, b) => b.length - a.length)
  return longFirst.reduce((cleaned, value) => cleaned.replaceAll(value, '***'), text)
}

/** Shorter values would blot out half of every sentence, and nobody can hide a value of three characters anyway. */
const charsMin = 4

/** A copy in which every secret value is what `hide` makes of it. */
function masked(value: unknown, hide: (value: unknown) => unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => masked(item, hide))
  if (!isFields(value)) return value
  const isSecret = value['kind'] === 'Secret'
  return mapped(isSecret ? withoutStringData(value) : value, (key, item) => {
    if (isSecret && (key === 'data' || key === 'stringData')) return everyLeaf(item, hide)
    // kubectl keeps a copy of the whole object there, whatever it is of.
    return key.endsWith('last-applied-configuration') && item !== undefined ? hide(item) : masked(item, hide)
  })
}

/** One value, one form: what is given in the clear is stored, and comes back, encoded. */
function withoutStringData(secret: Fields): Fields {
  const { stringData, ...rest } = secret
  if (!isFields(stringData) || !Object.values(stringData).every((value) => typeof value === 'string')) return secret
  const encoded = mapped(stringData, (_, value) => Buffer.from(value as string).toString('base64'))
  return { ...rest, data: { ...(isFields(rest['data']) ? rest['data'] : {}), ...encoded } }
}

function everyLeaf(value: unknown, hide: (value: unknown) => unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => everyLeaf(item, hide))
  return isFields(value) ? mapped(value, (_, item) => everyLeaf(item, hide)) : hide(value)
}

const mapped = (fields: Fields, change: (key: string, item: unknown) => unknown): Fields =>
  Object.fromEntries(Object.entries(fields).map(([key, item]) => [key, change(key, item)]))

/** As it is, encoded, decoded, quoted; of the copy that kubectl keeps, what its own Secret holds; of many lines, each. */
function formsOf(value: unknown): string[] {
  // A number where a text belongs is refused by the API server, in words that quote it.
  if (typeof value === 'number' || typeof value === 'bigint') return [`${value}`]
  if (typeof value !== 'string') return []
  const decoded = Buffer.from(value, 'base64').toString('utf8')
  const plain = [value, decoded].flatMap((text) => [text, JSON.stringify(text).slice(1, -1), ...linesOf(text)])
  return [...plain, Buffer.from(value).toString('base64'), ...copied(value)]
}

/** A line of a key or a file gives it away too; what is short is no secret but a word. */
const linesOf = (text: string): string[] => text.split('\n').filter((line) => line.trim().length >= 8)

function copied(text: string): string[] {
  if (!text.startsWith('{')) return []
  try {
    const values: string[] = []
    masked(JSON.parse(text), (value) => values.push(...formsOf(value)))
    return values
  } catch {
    return []
  }
}
