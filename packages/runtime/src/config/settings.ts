// Declares the settings of a program: sections and keys, each with schema, default, description and unit. The table is the only
// source for reading, checking, reloading, listing and documenting settings.
import { z } from 'zod'
import type { Secret } from '../secret.ts'

export type Setting<T> = {
  readonly is: 'setting'
  readonly schema: z.ZodType
  /** null: the setting is required. */
  readonly fallback: { readonly value: T } | null
  /** For operators: what the setting controls, and special values. */
  readonly description: string
  /** Unit of a number that neither the schema nor the end of the key names. */
  readonly unit: string | null
  readonly hot: boolean
  readonly secret: 'no' | 'text' | 'list'
  readonly env: readonly string[]
  /** Generates a secret whose file was named and does not exist yet; null: a missing file is a problem. */
  readonly generate: (() => string) | null
}
export type Section = { readonly [key: string]: Setting<unknown> | Section }
/** The value a table describes: the same keys, the schemas' types. */
export type ConfigOf<S> = {
  readonly [K in keyof S]: S[K] extends Setting<infer T> ? T : S[K] extends Section ? ConfigOf<S[K]> : never
}

export type SettingOptions = {
  /** One or two sentences for operators: what the setting controls, and special values. */
  description: string
  /** Needed for a number if neither its schema (`seconds`, `bytes`) nor the end of its key (`_ms`, `_days`) names the unit. */
  unit?: string
  /** Takes effect at a reload, without a restart. */
  hot?: boolean
  /** Further names of environment variables, weaker than BROKKR__SECTION__KEY: `DATABASE_URL`. */
  env?: readonly string[]
}

export function setting<T>(schema: z.ZodType<T>, fallback: NoInfer<T>, options: SettingOptions): Setting<T> {
  return declare(schema, { value: fallback }, 'no', options)
}

/** Without a value the program does not start. */
export function required<T>(schema: z.ZodType<T>, options: SettingOptions): Setting<T> {
  return declare(schema, null, 'no', options)
}

/** null without a value. */
export function optional<T>(schema: z.ZodType<T>, options: SettingOptions): Setting<T | null> {
  return declare(schema.nullable() as z.ZodType<T | null>, { value: null }, 'no', options)
}

type SecretOptions = SettingOptions & { schema?: z.ZodType<string>; generate?: () => string }

/** Also accepted as `<key>_file`. With `generate`, the program creates a named file that is missing when it starts. */
export function secret(options: SecretOptions): Setting<Secret | null> {
  return declare(options.schema ?? z.string().min(1), { value: null }, 'text', options)
}

export function requiredSecret(options: SecretOptions): Setting<Secret> {
  return declare(options.schema ?? z.string().min(1), null, 'text', options)
}

/** Several secrets: a list, a comma-separated text, or a file with one on each line. */
export function secretList(options: SettingOptions & { schema?: z.ZodType<string> }): Setting<readonly Secret[]> {
  return declare(z.array(options.schema ?? z.string().min(1)), { value: [] }, 'list', options)
}

function declare<T>(schema: z.ZodType, fallback: { value: T } | null, kind: Setting<T>['secret'], options: SecretOptions): Setting<T> {
  return {
    is: 'setting',
    schema,
    fallback,
    description: options.description,
    unit: options.unit ?? null,
    hot: options.hot ?? false,
    secret: kind,
    env: options.env ?? [],
    generate: options.generate ?? null,
  }
}

/** Intervals and time limits, in seconds; fractions are allowed. */
export const seconds = z
  .number()
  .nonnegative()
  .max(10 * 365 * 86_400)
  .meta({ unit: 'seconds' })
export const port = z.number().int().min(0).max(65_535).meta({ unit: 'TCP port' })
/** The maximum is that of a 32-bit integer in PostgreSQL. */
export const count = z
  .number()
  .int()
  .nonnegative()
  .max(2 ** 31 - 1)

export type SettingEntry = {
  /** As documented: `server.tls_cert_file`. */
  path: string
  /** As declared, from the outermost section in. */
  keys: readonly string[]
  setting: Setting<unknown>
}

/** Every setting of a table, in its order. */
export function listSettings(table: Section, outer: readonly string[] = []): SettingEntry[] {
  return Object.entries(table).flatMap(([key, child]): SettingEntry[] => {
    const keys = [...outer, key]
    return isSetting(child) ? [{ path: keys.map(snakeCase).join('.'), keys, setting: child }] : listSettings(child, keys)
  })
}

export function isSetting(child: Setting<unknown> | Section): child is Setting<unknown> {
  return child['is'] === 'setting'
}

export function environmentName(entry: SettingEntry): string {
  return `${environmentPrefix}${entry.path.replaceAll('.', '__').replaceAll('-', '_').toUpperCase()}`
}

export const environmentPrefix = 'BROKKR__'

/** `tlsCertFile`, `tls_cert_file`, `TLS_CERT_FILE` and `tls-cert-file` are one key. */
export function canonical(path: string): string {
  return path.replace(/[-_]/g, '').toLowerCase()
}

function snakeCase(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}
