// Filters of lists and objects.
import { type Arguments, booleanArgument, failInput, requireList, textArgument } from './arguments.ts'
import type { Budget } from './budget.ts'
import type { Filter } from './builtins.ts'
import { toFloat } from './numbers.ts'
import { resolve } from './scopes.ts'
import { RenderError } from './template-errors.ts'
import { joinParts } from './text-filters.ts'
import { compareText, describeKind, equals, isList, isMap, isNumber, printedLength, printValue, type Value } from './values.ts'

/** Counts the items of the list, which the filter copies at most once. */
const ofList =
  (change: (items: readonly Value[], args: Arguments, budget: Budget) => Value): Filter =>
  (budget, value, args) => {
    const items = requireList(args.filter, value)
    budget.items(items.length)
    return change(items, args, budget)
  }

export const listFilters = {
  join: ofList((items, args, budget) => {
    budget.text(items.reduce<number>((sum, item) => sum + (typeof item === 'string' ? 0 : printedLength(item)), 0))
    return joinParts(budget, items.map(printValue), textArgument(args, 'sep', ''))
  }),
  first: ofList((items) => items[0] ?? (items.length === 0 ? '' : null)),
  last: ofList((items) => items.at(-1) ?? (items.length === 0 ? '' : null)),
  length: (_budget, value, { filter }) => {
    if (typeof value === 'string') return BigInt(countCodePoints(value))
    if (isList(value)) return BigInt(value.length)
    return value !== null && typeof value === 'object' && isMap(value)
      ? BigInt(value.size)
      : failInput(filter, 'a text, a list or an object', value)
  },
  sort: ofList((items, args) => {
    const keyed = items.map((item) => ({ item, key: toSortKey(args, requireAttribute(args, item)) }))
    requireOneKind(args, keyed)
    return keyed.toSorted((one, other) => compareKeys(one.key, other.key)).map(({ item }) => item)
  }),
  unique: ofList((items, args) => {
    const isCaseSensitive = booleanArgument(args, 'case_sensitive')
    const keyed = items.flatMap((item) => {
      const attribute = resolve(item, readAttribute(args))
      return attribute === undefined ? [] : [{ item, key: toUniqueKey(args, attribute, isCaseSensitive) }]
    })
    requireOneKind(args, keyed)
    const seen = new Set<Key>()
    return keyed.filter(({ key }) => !seen.has(key) && seen.add(key)).map(({ item }) => item)
  }),
  map: ofList((items, args) => {
    if (items.length === 0) return items
    const segments = toSegments(textArgument(args, 'attribute'))
    return items.flatMap((item) => {
      const attribute = resolve(item, segments) ?? null
      return attribute === null ? [] : [attribute]
    })
  }),
  filter: ofList((items, args) => {
    if (items.length === 0) return items
    const segments = toSegments(textArgument(args, 'attribute'))
    const wanted = args.values.get('value') ?? null
    const matches = (attribute: Value) => (wanted === null ? attribute !== null : equals(attribute, wanted))
    return items.filter((item) => matches(resolve(item, segments) ?? null))
  }),
  get: (_budget, value, args) => {
    if (value === null || typeof value !== 'object' || !isMap(value)) return failInput(args.filter, 'an object', value)
    const key = textArgument(args, 'key')
    const entry = value.get(key) ?? (value.has(key) ? null : args.values.get('default'))
    if (entry === undefined) throw new RenderError('the filter get finds no such key and has no default')
    return entry
  },
} satisfies Record<string, Filter>

type Key = boolean | number | bigint | string

function countCodePoints(text: string): number {
  let count = 0
  for (const _ of text) count += 1
  return count
}

/** `meta.zone` → two keys; a part in quotes may contain dots. */
const toSegments = (attribute: string): string[] =>
  [...attribute.matchAll(/"([^"]*)"|([^."]+)/g)].map((match) => match[1] ?? match[2] ?? '')

const readAttribute = (args: Arguments): string[] => toSegments(textArgument(args, 'attribute', ''))

const requireAttribute = (args: Arguments, item: Value): Value => resolve(item, readAttribute(args)) ?? failAttribute(args)

function failAttribute({ filter }: Arguments): never {
  throw new RenderError(`the filter ${filter} needs its attribute in every item, and not null`)
}

function requireOneKind({ filter }: Arguments, keyed: readonly { readonly key: Key }[]): void {
  const kind = typeof keyed[0]?.key
  if (keyed.some(({ key }) => typeof key !== kind)) throw new RenderError(`the filter ${filter} cannot compare items of different kinds`)
}

/** Lists are sorted by their length. */
function toSortKey({ filter }: Arguments, value: Value): Key {
  if (isNumber(value)) return toFloat(value)
  if (typeof value === 'boolean' || typeof value === 'string') return value
  if (isList(value)) return BigInt(value.length)
  throw new RenderError(`the filter ${filter} cannot compare ${describeKind(value)}`)
}

function toUniqueKey(args: Arguments, value: Value, isCaseSensitive: boolean): Key {
  if (typeof value === 'number') throw new RenderError('the filter unique compares integers, not fractions')
  if (typeof value === 'string') return isCaseSensitive ? value : value.toLowerCase()
  return typeof value === 'bigint' ? value : toSortKey(args, value)
}

function compareKeys(one: Key, other: Key): number {
  if (typeof one === 'string' && typeof other === 'string') return compareText(one, other)
  return one < other ? -1 : one > other ? 1 : 0
}
