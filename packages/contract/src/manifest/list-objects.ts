// Lists become the objects in them, as with kubectl: any kind that ends in List and has items. Lists inside lists are expanded too,
// which kubectl refuses.
import { isJsonObject, type JsonObject, type JsonValue } from './json-text.ts'
import { ManifestError } from './manifest-error.ts'
import type { ReadDocument } from './yaml/document.ts'

export interface ListedObject {
  readonly object: JsonObject
  readonly line: number
  readonly place: string
}

export function* expandDocument({ value, line, itemLines, isShared }: ReadDocument, place: string): Generator<ListedObject> {
  for (const found of expand(value, { line, place, itemLines })) {
    yield isShared ? { ...found, object: copy(found.object) as JsonObject } : found
  }
}

interface Where {
  readonly line: number
  readonly place: string
  readonly itemLines: ReadonlyMap<JsonObject, number>
}

function* expand(value: JsonValue, where: Where): Generator<ListedObject> {
  if (!isJsonObject(value)) throw wrongType('not_an_object', where, 'is not a map', 'each document and each item of a list is one object')
  const kind = value['kind']
  const items = value['items']
  if (typeof kind !== 'string' || !kind.endsWith('List') || items === undefined) {
    yield { object: value, line: where.line, place: where.place }
    return
  }
  for (const [i, item] of requireItems(items, where).entries()) {
    const line = (isJsonObject(item) ? where.itemLines.get(item) : undefined) ?? where.line
    yield* expand(withKindOfList(item, value, kind), { ...where, line, place: `${where.place}, item ${i + 1}` })
  }
}

function requireItems(items: JsonValue, where: Where): JsonValue[] {
  if (items === null) return []
  if (Array.isArray(items)) return items
  throw wrongType('bad_list', where, 'is a list whose items are not a list', 'write the objects as a list under items')
}

const wrongType = (code: 'not_an_object' | 'bad_list', { line, place }: Where, what: string, todo: string) =>
  new ManifestError(code, { line, column: 1 }, { what: `${place} ${what}`, todo })

/** Items of a typed list such as ConfigMapList may omit kind and apiVersion. */
function withKindOfList(item: JsonValue, list: JsonObject, listKind: string): JsonValue {
  const kind = listKind.slice(0, -'List'.length)
  if (!isJsonObject(item) || kind === '' || isText(item['kind']) || isText(item['apiVersion'])) return item
  return Object.assign(item, { kind, apiVersion: list['apiVersion'] ?? '' })
}

const isText = (value: JsonValue | undefined): boolean => typeof value === 'string' && value !== ''

/** Copies parts that aliases share, so that a label added to one object does not appear on another. */
function copy(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(copy)
  if (!isJsonObject(value)) return value
  const twin = Object.create(null) as JsonObject
  for (const [key, item] of Object.entries(value)) twin[key] = copy(item)
  return twin
}
