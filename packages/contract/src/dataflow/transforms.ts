// The eighteen transforms as a spec writes them: fields, defaults, what must hold between fields. What they do is the processor's.
import { at } from './connectors/shared.ts'
import { type Fields, many, optional, required, standard, type Values } from './field.ts'
import { choice, flag, listOf, text, zone } from './kinds.ts'
import { condition, headerMapping, path, rename, timeFormat } from './kinds-language.ts'
import { castSpec, filledText, insertFields, oneKey } from './kinds-transform.ts'
import { layoutNames } from './layout.ts'
import { parsePath } from './path.ts'
import type { Problem } from './problem.ts'
import { route } from './route.ts'

const createdAt = parsePath('created_at')

export const timestamp = {
  fieldName: standard(path('set'), createdAt.ok ? createdAt.value : { text: 'created_at', segments: [] }),
  format: standard(timeFormat, { layout: layoutNames['RFC3339']! }),
  timezone: standard(zone, 'UTC'),
}
export const flatten = { field: required(path('part')) }
export const filter = { condition: required(condition) }
export const mask = {
  fields: many(listOf(path('edit'))),
  maskChar: standard(filledText, '*'),
  keepLength: standard(flag, false),
}
export const router = { routes: many(listOf(route)) }
export const select = { fields: many(listOf(path('named'))) }
export const remove = { fields: many(listOf(path('edit'))) }
export const snakeCase = { deep: standard(flag, false) }
export const camelCase = { deep: standard(flag, false), style: standard(choice(['pascal', 'lower']), 'pascal') }
export const debeziumUnwrap = {
  snapshotOperation: standard(choice(['insert', 'update']), 'insert'),
  includeSourceInMetadata: standard(flag, false),
  inferDeleteFromTombstone: standard(flag, false),
  addOperationFields: standard(flag, false),
  addSourceFields: standard(listOf(text), []),
}
export const replaceField = {
  include: optional(listOf(path('edit'))),
  exclude: optional(listOf(path('edit'))),
  renames: optional(listOf(rename)),
}
export const headersToPayload = { mappings: many(listOf(headerMapping)) }
export const structFlatten = { delimiter: standard(filledText, '.') }
export const extractField = { field: required(path('place')) }
export const hoistField = { field: required(oneKey) }
export const cast = { spec: many(castSpec) }
export const timezone = {
  timezone: required(zone),
  fields: many(listOf(path('edit'))),
  sourceTimezone: standard(zone, 'UTC'),
  format: standard(choice(['RFC3339Nano', 'RFC3339', 'UnixMilli', 'Unix']), 'RFC3339Nano'),
}
export const insertField = { fields: many(insertFields) }

export const transforms = {
  timestamp,
  flatten,
  filter,
  mask,
  router,
  select,
  remove,
  snakeCase,
  camelCase,
  debeziumUnwrap,
  replaceField,
  headersToPayload,
  structFlatten,
  extractField,
  hoistField,
  cast,
  timezone,
  insertField,
} as const satisfies Record<string, Fields>

export type TransformType = keyof typeof transforms
export type TransformConfig<T extends TransformType> = Values<(typeof transforms)[T]>

/** What must hold between the fields of one transform. */
export function checkTransform(type: TransformType, values: unknown, where: string): Problem[] {
  if (type !== 'replaceField') return []
  const { include, exclude, renames } = values as TransformConfig<'replaceField'>
  if (include !== undefined && exclude !== undefined) return [at(where, 'V16', 'include and exclude exclude each other')]
  return include === undefined && exclude === undefined && renames === undefined
    ? [at(where, 'V16', 'needs include, exclude or renames')]
    : []
}
