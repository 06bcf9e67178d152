// How a program declares its settings: sections and keys, each with a schema, a default, and whether it is hot or secret. The
// table is the one source for reading, checking, reloading and listing them.
import { z } from 'zod'
import type { Secret } from './secret.ts'

export type Setting<T> = {
  readonly is: 'setting'
  readonly schema: z.ZodType
  /** null: the setting is required. */
  readonly fallback: { readonly value: T } | null
  readonly hot: boolean
  readonly secret: 'no' | 'text' | 'list'
  readonly env: readonly string[]
  /** Makes a secret whose file was named and does not exist yet; null: a missing file is a problem. */
  readonly make: (() => string) | null
}
export type Section = { readonly [key: string]: Setting<unknown> | Section }
/** The value a table describes: the same keys, the schemas' types. */
export type ConfigOf<S> = {
  readonly [K in keyof S]: S[K] extends Setting<infer T> ? T : S[K] extends Section ? ConfigOf<S[K]> : never
}

type Marks = {
  /** Takes effect at a reload, without a restart. */
  hot?: boolean
  /** Further names of environment variables, weaker than BROKKR__SECTION__KEY: `DATABASE_URL`. */
  env?: readonly string[]
}

export function setting<T>(schema: z.ZodType<T>, fallback: NoInfer<T>, marks: Marks = {}): Setting<T> {
  return declare(schema, { value: fallback }, 'no', marks)
}

/** Without a value the program does not start. */
export function required<T>(schema: z.ZodType<T>, marks: Marks = {}): Setting<T> {
  return declare(schema, null, 'no', marks)
}

/** null when nobody gives it. */
export function optional<T>(schema: z.ZodType<T>, marks: Marks = {}): Setting<T | null> {
  return declare(schema.nullable() as z.ZodType<T | null>, { value: null }, 'no', marks)
}

type SecretMarks = Marks & { schema?: z.ZodType<string>; make?: () => string }

/** Also as `<key>_file`. The schema sees the text, nobody else does. With `make`, a named file that is missing is made at the start. */
export function secret(marks: SecretMarks = {}): Setting<Secret | null> {
  return declare(marks.schema ?? z.string().min(1), { value: null }, 'text', marks)
}

export function requiredSecret(marks: SecretMarks = {}): Setting<Secret> {
  return declare(marks.schema ?? z.string().min(1), null, 'text', marks)
}

/** Several secrets: a list, a comma list, or a file with one on each line. */
export function secretList(marks: Marks & { schema?: z.ZodType<string> } = {}): Setting<readonly Secret[]> {
  return declare(z.array(marks.schema ?? z.string().min(1)), { value: [] }, 'list', marks)
}

function declare<T>(schema: z.ZodType, fallback: { value: T } | null, kind: Setting<T>['secret'], marks: SecretMarks): Setting<T> {
  return { is: 'setting', schema, fallback, hot: marks.hot ?? false, secret: kind, env: marks.env ?? [], make: marks.make ?? null }
}

/** Seconds, also fractions of them, as every interval and time limit is given. */
export const seconds = z
  .number()
  .nonnegative()
  .max(10 * 365 * 86_400)
export const port = z.number().int().min(0).max(65_535)
export const count = z.number().int().nonnegative()

export type Entry = {
  /** As documented: `server.tls_cert_file`. */
  path: string
  /** As declared, from the outermost section in. */
  keys: readonly string[]
  setting: Setting<unknown>
}

/** Every setting of a table, in its order. */
export function listSettings(table: Section, outer: readonly string[] = []): Entry[] {
  return Object.entries(table).flatMap(([key, child]): Entry[] => {
    const keys = [...outer, key]
    return isSetting(child) ? [{ path: keys.map(snakeCase).join('.'), keys, setting: child }] : listSettings(child, keys)
  })
}

export function isSetting(child: Setting<unknown> | Section): child is Setting<unknown> {
  return child['is'] === 'setting'
}

export function environmentName(entry: Entry): string {
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
