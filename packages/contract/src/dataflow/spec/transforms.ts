// The eighteen transforms in a spec: fields, defaults and rules between fields. The processor implements them.
import { at } from '../connectors/shared.ts'
import { type Fields, many, optional, required, standard, type Values } from '../fields/field.ts'
import { choice, flag, listOf, text, zone } from '../fields/kinds.ts'
import { condition, headerMapping, path, rename, timeFormat } from '../fields/kinds-language.ts'
import { castSpec, filledText, insertFields, oneKey } from '../fields/kinds-transform.ts'
import type { Problem } from '../fields/problem.ts'
import { layoutNames } from '../language/layout.ts'
import { parsePath } from '../language/path.ts'
import { route } from './route.ts'

const createdAt = parsePath('created_at')

const timestamp = {
  fieldName: standard(path('set'), createdAt.ok ? createdAt.value : { text: 'created_at', segments: [] }),
  format: standard(timeFormat, { layout: layoutNames['RFC3339']! }),
  timezone: standard(zone, 'UTC'),
}
const flatten = { field: required(path('part')) }
const filter = { condition: required(condition) }
const mask = {
  fields: many(listOf(path('edit'))),
  maskChar: standard(filledText, '*'),
  keepLength: standard(flag, false),
}
const router = { routes: many(listOf(route)) }
const select = { fields: many(listOf(path('named'))) }
const remove = { fields: many(listOf(path('edit'))) }
const snakeCase = { deep: standard(flag, false) }
const camelCase = { deep: standard(flag, false), style: standard(choice(['pascal', 'lower']), 'pascal') }
const debeziumUnwrap = {
  snapshotOperation: standard(choice(['insert', 'update']), 'insert'),
  includeSourceInMetadata: standard(flag, false),
  inferDeleteFromTombstone: standard(flag, false),
  addOperationFields: standard(flag, false),
  addSourceFields: standard(listOf(text), []),
}
const replaceField = {
  include: optional(listOf(path('edit'))),
  exclude: optional(listOf(path('edit'))),
  renames: optional(listOf(rename)),
}
const headersToPayload = { mappings: many(listOf(headerMapping)) }
const structFlatten = { delimiter: standard(filledText, '.') }
const extractField = { field: required(path('place')) }
const hoistField = { field: required(oneKey) }
const cast = { spec: many(castSpec) }
const timezone = {
  timezone: required(zone),
  fields: many(listOf(path('edit'))),
  sourceTimezone: standard(zone, 'UTC'),
  format: standard(choice(['RFC3339Nano', 'RFC3339', 'UnixMilli', 'Unix']), 'RFC3339Nano'),
}
const insertField = { fields: many(insertFields) }

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

/** Rules between the fields of one transform. */
export function checkTransform(type: TransformType, values: unknown, where: string): Problem[] {
  if (type !== 'replaceField') return []
  const { include, exclude, renames } = values as TransformConfig<'replaceField'>
  if (include !== undefined && exclude !== undefined) return [at(where, 'V16', 'include and exclude exclude each other')]
  return include === undefined && exclude === undefined && renames === undefined
    ? [at(where, 'V16', 'needs include, exclude or renames')]
    : []
}
