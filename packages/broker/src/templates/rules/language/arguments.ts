// Typed access to the named arguments of filters and functions.
import { RenderError } from './template-errors.ts'
import { describeKind, isList, type Value } from './values.ts'

export interface Arguments {
  /** Name of the filter or function, for messages. */
  readonly filter: string
  readonly values: ReadonlyMap<string, Value>
}

export function textArgument({ filter, values }: Arguments, name: string, fallback?: string): string {
  const value = values.get(name) ?? fallback
  return typeof value === 'string' ? value : failArgument(filter, name, 'a text', value)
}

export function booleanArgument({ filter, values }: Arguments, name: string): boolean {
  const value = values.get(name) ?? false
  return typeof value === 'boolean' ? value : failArgument(filter, name, 'true or false', value)
}

/** A non-negative integer that an index can hold. */
export function countArgument({ filter, values }: Arguments, name: string, fallback?: bigint): number {
  const value = values.get(name) ?? fallback
  const isCount = typeof value === 'bigint' && value >= 0n && value <= BigInt(Number.MAX_SAFE_INTEGER)
  return isCount ? Number(value) : failArgument(filter, name, 'a non-negative integer', value)
}

export function integerArgument({ filter, values }: Arguments, name: string, fallback: bigint): bigint {
  const value = values.get(name) ?? fallback
  return typeof value === 'bigint' ? value : failArgument(filter, name, 'an integer', value)
}

export const requireText = (filter: string, value: Value): string =>
  typeof value === 'string' ? value : failInput(filter, 'a text', value)

export const requireList = (filter: string, value: Value): readonly Value[] => (isList(value) ? value : failInput(filter, 'a list', value))

export function failInput(filter: string, expected: string, value: Value): never {
  throw new RenderError(`the filter ${filter} needs ${expected}, not ${describeKind(value)}`)
}

function failArgument(filter: string, name: string, expected: string, value: Value | undefined): never {
  throw new RenderError(`${filter} needs ${name}=${expected}${value === undefined ? '' : `, not ${describeKind(value)}`}`)
}
