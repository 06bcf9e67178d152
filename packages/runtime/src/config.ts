// Loads a program's settings: defaults < file (BROKKR_CONFIG_FILE, TOML or YAML) < environment (BROKKR__SECTION__KEY) < flags.
// Every problem is reported at once; nothing is half loaded, so that a reload can be refused as a whole.
import { isDeepStrictEqual } from 'node:util'
import { ConfigError } from './config-error.ts'
import { type OnRead, readConfigFile } from './config-file.ts'
import { resolveEntry } from './config-resolve.ts'
import { type Environment, type Found, fromEnvironment, fromFlags, fromTree, type Given, merge, type Source } from './config-sources.ts'
import { type ConfigOf, type Entry, listSettings, type Section } from './config-table.ts'
import { mask, Secret } from './secret.ts'

export type ConfigInput<S extends Section> = {
  table: S
  env: Environment
  /** Wins over BROKKR_CONFIG_FILE. */
  file?: string
  /** By path: `{ 'server.port': 3001 }`. */
  flags?: Readonly<Record<string, unknown>>
  /** Sections of other programs that share the file or the environment. */
  ignoredSections?: readonly string[]
  /** Rules over several settings, asked when each of them is right. */
  check?: (value: ConfigOf<S>) => readonly { path: string; problem: string }[]
  /** Told of every file that is read. */
  onRead?: OnRead
  /** At the start of a program, not at a reload: secrets that know how are made into the files that were named for them. */
  makeMissing?: boolean
}

export type LoadedConfig<T> = {
  readonly value: T
  /** By path, such as `server.tls_cert_file`. */
  readonly sources: ReadonlyMap<string, Source>
  readonly hot: ReadonlySet<string>
  readonly flat: ReadonlyMap<string, unknown>
  readonly file: string | null
}

/** Throws ConfigError with everything that is wrong. */
export async function loadConfig<S extends Section>(input: ConfigInput<S>): Promise<LoadedConfig<ConfigOf<S>>> {
  const file = input.file ?? (input.env['BROKKR_CONFIG_FILE'] || null)
  const ignored = input.ignoredSections ?? []
  const fromFile = await fileSource(input.table, file, ignored, input.onRead)
  const found = merge([fromFile, fromEnvironment(input.table, input.env, ignored), fromFlags(input.table, input.flags ?? {})])
  const entries = listSettings(input.table)
  const options = { makeMissing: input.makeMissing ?? false, onRead: input.onRead }
  const resolved = await Promise.all(entries.map((entry) => resolveEntry(entry, found.given.filter(isFor(entry)), options)))
  const problems = [...found.problems, ...resolved.flatMap((one) => (one.ok ? [] : one.problems))]
  if (problems.length > 0) throw new ConfigError(problems)
  const good = resolved.filter((one) => one.ok)
  const value = nested(good) as ConfigOf<S>
  const broken = (input.check?.(value) ?? []).map(({ path, problem }) => ({ path, where: '', problem }))
  if (broken.length > 0) throw new ConfigError(broken)
  return {
    value,
    sources: new Map(good.map(({ entry, source }) => [entry.path, source])),
    hot: new Set(entries.flatMap(({ path, setting }) => (setting.hot ? [path] : []))),
    flat: new Map(good.map((one) => [one.entry.path, one.value])),
    file,
  }
}

export type ConfigChange = { key: string; oldValue: unknown; newValue: unknown; hot: boolean }

/** What a reload would change, in the order of the table; secrets as ***. */
export function diffConfig<T>(before: LoadedConfig<T>, after: LoadedConfig<T>): ConfigChange[] {
  const changed = [...after.flat].filter(([path, value]) => !isSame(before.flat.get(path), value))
  return changed.map(([key, value]) => ({ key, oldValue: shown(before.flat.get(key)), newValue: shown(value), hot: after.hot.has(key) }))
}

async function fileSource(table: Section, file: string | null, ignored: readonly string[], onRead: OnRead | undefined): Promise<Found> {
  if (file === null) return { given: [], problems: [] }
  const read = await readConfigFile(file, onRead)
  if (read.ok) return fromTree(table, read.value, file, ignored)
  return { given: [], problems: [{ path: file, where: '', problem: read.problem }] }
}

function isFor(entry: Entry): (given: Given) => boolean {
  return (given) => given.entry.path === entry.path
}

/** Frozen: whoever holds the settings sees what was loaded, whatever others do with it. */
function nested(values: readonly { entry: Entry; value: unknown }[]): unknown {
  const root: Record<string, unknown> = {}
  for (const { entry, value } of values) {
    const sections = entry.keys.slice(0, -1)
    const section = sections.reduce<Record<string, unknown>>((node, key) => (node[key] ??= {}) as Record<string, unknown>, root)
    section[entry.keys.at(-1) ?? ''] = value
  }
  return deepFreeze(root)
}

function deepFreeze(value: unknown): unknown {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) Object.values(Object.freeze(value)).forEach(deepFreeze)
  return value
}

function isSame(a: unknown, b: unknown): boolean {
  if (a instanceof Secret && b instanceof Secret) return a.equals(b)
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((item, index) => isSame(item, b[index]))
  return isDeepStrictEqual(a, b)
}

function shown(value: unknown): unknown {
  if (value instanceof Secret) return mask
  return Array.isArray(value) ? value.map(shown) : value
}
