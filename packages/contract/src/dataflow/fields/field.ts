// Tables of fields for connectors, transforms and the flow: each field has a kind and a default. Reading, printing and the JSON schema use
// these tables.
import type { z } from 'zod'
import type { PatternEngine } from '../language/patterns.ts'
import type { Problem, Rule, Warning } from './problem.ts'

/** Reads, prints and describes one kind of value. */
export interface Kind<T> {
  /** Undefined if the value was refused (and reported), or means the same as no value. */
  read(value: unknown, at: SpecLocation): T | undefined
  /** Written form: it reads as the same value. */
  print(value: T): unknown
  readonly schema: z.ZodType
  /** A list of texts: a secret contains it as one comma-separated text. */
  readonly isList?: boolean
  /** Empty text is a value, not an absent field. */
  readonly takesBlank?: boolean
}

/** `T` includes undefined if the field may be absent. */
export interface Field<T> {
  readonly kind: Kind<NonNullable<T>>
  /** Name in the spec if it differs from the normalized name, which includes the unit. */
  readonly from?: string
  readonly isRequired?: boolean
  /** A list or map that must not be empty (V14). */
  readonly isMany?: boolean
  readonly fallback?: NonNullable<T>
  /** Whether a secret may provide the value: the reference is `<field>SecretRef` unless it has another name. */
  readonly twin?: true | string
  /** A value that should not be written into an object. */
  readonly isSecret?: boolean
}
export type Fields = { readonly [name: string]: Field<unknown> }

/** Result of reading a table. A field that only its secret provides is absent until the secret is resolved. */
export type Values<F> = { readonly [K in keyof F]: F[K] extends Field<infer T> ? T : never }

/** A location in the spec: as the user wrote it, and normalized. */
export interface SpecLocation {
  readonly path: string
  readonly keys: readonly (string | number)[]
  readonly report: Report
}

export interface SecretRef {
  readonly name: string
  readonly key: string
  readonly namespace?: string
}

/** A value from a secret: location of the reference and of the value. */
export interface SecretUse {
  readonly path: string
  readonly keys: readonly (string | number)[]
  readonly twin: string
  readonly isList: boolean
  readonly ref: SecretRef
}

/** Used for defaults: consumer group, slot. */
export interface FlowIdentity {
  readonly namespace: string
  readonly name: string
}

export interface Report {
  readonly problems: Problem[]
  readonly warnings: Warning[]
  readonly secrets: SecretUse[]
  readonly patterns: PatternEngine | undefined
  readonly identity: FlowIdentity
  /** Location of each connector's configuration. */
  readonly places: Map<object, string>
}

interface Options {
  readonly from?: string
  readonly isSecret?: boolean
}
interface TwinOptions extends Options {
  readonly twin?: true | string
}

export const optional = <T>(kind: Kind<T>, options: TwinOptions = {}): Field<T | undefined> =>
  ({ kind, ...options }) as Field<T | undefined>

export const required = <T>(kind: Kind<T>, options: TwinOptions = {}): Field<T> => ({ kind, ...options, isRequired: true }) as Field<T>

/** A list or map with at least one entry. */
export const many = <T>(kind: Kind<T>, options: Options = {}): Field<T> =>
  ({ kind, ...options, isRequired: true, isMany: true }) as Field<T>

export const standard = <T>(kind: Kind<T>, fallback: T, options: TwinOptions = {}): Field<T> => ({ kind, fallback, ...options }) as Field<T>

export const child = (at: SpecLocation, written: string, key = written): SpecLocation => ({
  path: `${at.path}.${written}`,
  keys: [...at.keys, key],
  report: at.report,
})

export const item = (at: SpecLocation, index: number): SpecLocation => ({
  path: `${at.path}[${index}]`,
  keys: [...at.keys, index],
  report: at.report,
})

export function refuse(at: SpecLocation, rule: Rule, reason: string): undefined {
  at.report.problems.push({ path: at.path, rule, reason })
}

export function warn(at: SpecLocation, reason: string): void {
  at.report.warnings.push({ path: at.path, reason })
}

/** V8: nouns for `must be a … , not a …`. */
export function refuseType(at: SpecLocation, wanted: string, value: unknown): undefined {
  return refuse(at, 'V8', `must be a ${wanted}, not a ${typeName(value)}`)
}

function typeName(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'list'
  return typeof value === 'object' ? 'map' : typeof value
}

export const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
