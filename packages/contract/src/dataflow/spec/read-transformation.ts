// Reads and prints one entry of `transformations`.
import { child, optional, refuse, type SpecLocation } from '../fields/field.ts'
import { listOf } from '../fields/kinds.ts'
import { condition } from '../fields/kinds-language.ts'
import { printFields, readFields } from '../fields/read-fields.ts'
import { transformationFields } from './flow-fields.ts'
import { readTyped, type TypedShape } from './read-typed.ts'
import { checkTransform, type TransformType, transforms } from './transforms.ts'
import type { Transformation } from './types.ts'

const fields = { when: optional(condition), ...transformationFields }
const types = Object.keys(transforms) as TransformType[]

const shape: TypedShape<TransformType> = {
  types,
  blockKeys: types,
  blockKeysOf: (type) => [type],
  needsBlock: (type) => Object.values(transforms[type]).some((field) => field.isRequired === true) || type === 'replaceField',
  alsoKnown: Object.keys(fields),
}

function readTransformation(value: unknown, at: SpecLocation): Transformation | undefined {
  const typed = readTyped(value, at, shape)
  if (typed === undefined) return undefined
  const beside = readFields(fields, value, at, [...types, 'type', 'config', ...Object.keys(value as object)])
  const config = readFields(transforms[typed.type], typed.block, typed.at)
  if (config === undefined || beside === undefined) return undefined
  at.report.problems.push(...checkTransform(typed.type, config, typed.at.path))
  const onNonJson = beside.onNonJson ?? (typed.type === 'mask' ? 'error' : 'pass')
  return { type: typed.type, config, when: beside.when, onNonJson } as Transformation
}

export function readTransformations(value: unknown, at: SpecLocation): readonly Transformation[] | undefined {
  if (value === undefined || value === null) return []
  return listOf({ read: readTransformation, print: printTransformation, schema: condition.schema }).read(value, at)
}

export const printTransformation = (step: Transformation): Record<string, unknown> => ({
  type: step.type,
  config: printFields(transforms[step.type], step.config),
  ...printFields(fields, { when: step.when, onNonJson: step.onNonJson }),
})

/** For a required part: reports its absence. */
export function readPart<T>(
  map: Readonly<Record<string, unknown>>,
  key: string,
  at: SpecLocation,
  read: (value: unknown, at: SpecLocation) => T | undefined,
): T | undefined {
  const value = map[key]
  return value === undefined || value === null ? refuse(child(at, key), 'V1', 'is required') : read(value, child(at, key))
}
