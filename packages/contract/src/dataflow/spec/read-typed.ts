// Reads a part with a type and a block: `{type, config: {…}}` or `{type, <type>: {…}}`, the two published shapes.
import { child, isMap, refuse, refuseType, type SpecLocation, warn } from '../fields/field.ts'
import { refuseUnknown } from '../fields/kinds.ts'

export interface TypedShape<T extends string> {
  readonly types: readonly T[]
  /** All keys that name a block of some type. */
  readonly blockKeys: readonly string[]
  blockKeysOf(type: T): readonly string[]
  needsBlock(type: T): boolean
  /** Keys beside type and block that other readers handle. */
  readonly alsoKnown: readonly string[]
}

export interface Typed<T extends string> {
  readonly type: T
  /** Empty if none was written and none is required. */
  readonly block: unknown
  readonly at: SpecLocation
}

export function readTyped<T extends string>(value: unknown, at: SpecLocation, shape: TypedShape<T>): Typed<T> | undefined {
  if (!isMap(value)) return refuseType(at, 'map', value)
  const type = readType(value['type'], child(at, 'type'), shape)
  if (type === undefined) return undefined
  const own = shape.blockKeysOf(type)
  const foreign = shape.blockKeys.filter((key) => !own.includes(key) && isSet(value[key]))
  for (const key of foreign) refuse(child(at, key), 'V6', `is set but type is ${type}`)
  warnUnknown(value, at, [...own, ...foreign, ...shape.alsoKnown])
  const typed = chooseBlock(value, at, type, own)
  if (typed !== undefined || !shape.needsBlock(type))
    return foreign.length > 0 ? undefined : (typed ?? { type, block: {}, at: child(at, 'config') })
  return refuse(at, 'V4', `type ${type} needs a config block`)
}

function readType<T extends string>(value: unknown, at: SpecLocation, { types }: TypedShape<T>): T | undefined {
  if (!isSet(value) || (typeof value === 'string' && value.trim() === '')) return refuse(at, 'V1', 'is required')
  if (typeof value !== 'string') return refuseType(at, 'string', value)
  const match = types.find((type) => type.toLowerCase() === value.trim().toLowerCase())
  return match ?? refuseUnknown(at, value, types)
}

const isSet = (value: unknown): boolean => value !== undefined && value !== null

/** The block under either key; two equal ones count as one. */
function chooseBlock<T extends string>(
  map: Readonly<Record<string, unknown>>,
  at: SpecLocation,
  type: T,
  own: readonly string[],
): Typed<T> | undefined {
  const [first, ...others] = ['config', ...own].filter((key) => isSet(map[key]))
  if (first === undefined) return undefined
  if (others.some((key) => !isSame(map[first], map[key]))) refuse(at, 'V5', `give either config or ${type}, not both`)
  return { type, block: map[first], at: child(at, first, 'config') }
}

/** Equal as JSON; the order of keys does not matter. */
function isSame(left: unknown, right: unknown): boolean {
  if (Array.isArray(left) && Array.isArray(right)) return left.length === right.length && left.every((value, i) => isSame(value, right[i]))
  if (!isMap(left) || !isMap(right)) return left === right
  const keys = Object.keys(left)
  return keys.length === Object.keys(right).length && keys.every((key) => Object.hasOwn(right, key) && isSame(left[key], right[key]))
}

function warnUnknown(map: Readonly<Record<string, unknown>>, at: SpecLocation, known: readonly string[]): void {
  const all = new Set(['type', 'config', ...known])
  for (const key of Object.keys(map)) if (!all.has(key)) warn(child(at, key), 'is not known and is ignored')
}
