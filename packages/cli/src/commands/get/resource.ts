// A kind of resource as `brokkr get` and `brokkr describe` show it.
import type { Client } from '@brokkr/client'
import type { View } from '../../show.ts'

export interface Filter {
  readonly labels: readonly string[]
  /** Allowed names: `fields` of the resource. */
  readonly fields: Readonly<Record<string, string>>
}
export interface Description extends View {
  /** What to watch for changes. */
  readonly scope: readonly string[]
}
// oxlint-disable-next-line typescript/no-explicit-any -- a list holds resources of different shapes
export interface Resource<T = any> {
  readonly head: readonly string[]
  readonly row: (item: T) => string[]
  /** Columns after those of `row`. */
  readonly wideHead?: readonly string[]
  readonly wideRow?: (item: T) => string[]
  readonly nameOf: (item: T) => string
  /** Fields that `--field` can filter by. */
  readonly fields: readonly string[]
  /** Whether `--label` can filter. */
  readonly hasLabels: boolean
  readonly pages: (client: Client, filter: Filter) => AsyncIterable<readonly T[]>
  /** Kinds of objects in the feed that change the list. */
  readonly kinds: readonly string[]
  readonly describe?: (client: Client, name: string) => Promise<Description>
}

/** Lines of `name   value`, names padded. */
export function pairLines(pairs: readonly (readonly [string, string | null | undefined])[]): string[] {
  const width = Math.max(...pairs.map(([name]) => name.length))
  return pairs.map(([name, value]) => `${name.padEnd(width)}  ${value === null || value === undefined || value === '' ? '-' : value}`)
}

/** The fields as a query; `true` and `false` are truth values on the wire. */
export const toQuery = ({ labels, fields }: Filter): object => ({ ...(labels.length === 0 ? {} : { label: [...labels] }), ...fields })
