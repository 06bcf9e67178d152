// The language in which connectors, transforms and the flow itself list their fields: a table of names, each with its kind and
// what holds when it is absent. Reading, printing and the JSON schema all come from these tables.
import type { z } from 'zod'
import type { PatternEngine } from './patterns.ts'
import type { Problem, Rule, Warning } from './problem.ts'

/** How one kind of value is read, printed and described. */
export interface Kind<T> {
  /** Undefined when the value is refused (then it has been reported), or when it means the same as none. */
  read(value: unknown, at: Place): T | undefined
  /** The written form: what is printed reads as the same value. */
  print(value: T): unknown
  readonly schema: z.ZodType
  /** A list of texts: a secret holds it as one text with commas. */
  readonly isList?: boolean
  /** Blank text is a value here, not the absence of one. */
  readonly takesBlank?: boolean
}

/** `T` includes undefined where the field may be absent. */
export interface Field<T> {
  readonly kind: Kind<NonNullable<T>>
  /** The name users write, where ours differs (it says the unit). */
  readonly from?: string
  readonly isRequired?: boolean
  /** A list or map that must not be empty (V14). */
  readonly isMany?: boolean
  readonly fallback?: NonNullable<T>
  /** Whether a secret may hold the value: the field that names it is the twin, `<field>SecretRef` unless it has a name of its own. */
  readonly twin?: true | string
  /** A value that should not be written into an object. */
  readonly isSecret?: boolean
}
export type Fields = { readonly [name: string]: Field<unknown> }

/** What reading a table gives. A field that is given by its twin alone is absent until the secret is resolved. */
export type Values<F> = { readonly [K in keyof F]: F[K] extends Field<infer T> ? T : never }

/** A place in the spec: as the user wrote it, and in the normal form. */
export interface Place {
  readonly path: string
  readonly keys: readonly (string | number)[]
  readonly report: Report
}

export interface SecretRef {
  readonly name: string
  readonly key: string
  readonly namespace?: string
}

/** A value that comes from a secret: where the reference stands and where the value goes. */
export interface SecretUse {
  readonly path: string
  readonly keys: readonly (string | number)[]
  readonly twin: string
  readonly isList: boolean
  readonly ref: SecretRef
}

/** Defaults are made of it: consumer group, slot. */
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
  /** Where the configuration of each connector was written. */
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

export const child = (at: Place, written: string, key = written): Place => ({
  path: `${at.path}.${written}`,
  keys: [...at.keys, key],
  report: at.report,
})

export const item = (at: Place, index: number): Place => ({ path: `${at.path}[${index}]`, keys: [...at.keys, index], report: at.report })

export function refuse(at: Place, rule: Rule, reason: string): undefined {
  at.report.problems.push({ path: at.path, rule, reason })
}

export function warn(at: Place, reason: string): void {
  at.report.warnings.push({ path: at.path, reason })
}

/** V8: words with which `must be a … , not a …` reads well. */
export function refuseType(at: Place, wanted: string, value: unknown): undefined {
  return refuse(at, 'V8', `must be a ${wanted}, not a ${typeName(value)}`)
}

function typeName(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'list'
  return typeof value === 'object' ? 'map' : typeof value
}

export const isMap = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
