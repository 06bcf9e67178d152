// Loads a program's settings: defaults < file (BROKKR_CONFIG_FILE, TOML or YAML) < environment (BROKKR__SECTION__KEY) < flags.
// Every problem is reported at once; nothing is half loaded, so that a reload can be refused as a whole.
import { isDeepStrictEqual } from 'node:util'
import { mask, Secret } from '../secret.ts'
import { ConfigError, type Problem } from './config-error.ts'
import { type OnRead, readConfigFile } from './read-config-file.ts'
import { resolveSetting } from './resolve-setting.ts'
import { type ConfigOf, listSettings, type Section, type SettingEntry } from './settings.ts'
import {
  type Environment,
  type GivenValue,
  mergeSources,
  readEnvironmentSource,
  readFlags,
  readTree,
  type Source,
  type SourceValues,
} from './sources.ts'

export type ConfigInput<S extends Section> = {
  table: S
  env: Environment
  /** Wins over BROKKR_CONFIG_FILE. */
  file?: string
  /** By path: `{ 'server.port': 3001 }`. */
  flags?: Readonly<Record<string, unknown>>
  /** Sections of other programs that share the file or the environment. */
  ignoredSections?: readonly string[]
  /** Rules over several settings. A setting that is wrong has its default here. */
  check?: (value: ConfigOf<S>) => readonly { path: string; problem: string }[]
  /** Called for every file that is read. */
  onRead?: OnRead
  /** At the start of a program, not at a reload: generates missing secret files for settings that support it. */
  createMissingSecrets?: boolean
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
  const fromFile = await readFileSource(input.table, file, ignored, input.onRead)
  const sources = mergeSources([
    fromFile,
    readEnvironmentSource(input.table, input.env, ignored),
    readFlags(input.table, input.flags ?? {}),
  ])
  const entries = listSettings(input.table)
  const options = { createMissingSecrets: input.createMissingSecrets ?? false, onRead: input.onRead }
  const resolved = await Promise.all(entries.map((entry) => resolveSetting(entry, sources.given.filter(isFor(entry)), options)))
  const problems = [...sources.problems, ...resolved.flatMap((one) => (one.ok ? [] : one.problems))]
  const good = resolved.filter((one) => one.ok)
  if (problems.length > 0) throw new ConfigError([...problems, ...findCrossFieldProblems(input, { entries, good, problems })])
  const value = buildConfig(good) as ConfigOf<S>
  const broken = checkProblems(input, value)
  if (broken.length > 0) throw new ConfigError(broken)
  return {
    value,
    sources: new Map(good.map(({ entry, source }) => [entry.path, source])),
    hot: new Set(entries.flatMap(({ path, setting }) => (setting.hot ? [path] : []))),
    flat: new Map(good.map((one) => [one.entry.path, one.value])),
    file,
  }
}

const checkProblems = <S extends Section>({ check }: ConfigInput<S>, value: ConfigOf<S>): Problem[] =>
  (check?.(value) ?? []).map(({ path, problem }) => ({ path, where: '', problem }))

interface PartialResult {
  readonly entries: readonly SettingEntry[]
  readonly good: readonly { entry: SettingEntry; value: unknown }[]
  readonly problems: readonly Problem[]
}

/** Runs the cross-field checks although some settings are wrong; those count as not given. Settings with a known problem are not
 *  reported twice, and a check that needs a missing required setting is skipped. */
function findCrossFieldProblems<S extends Section>(input: ConfigInput<S>, { entries, good, problems }: PartialResult): Problem[] {
  const validValues = new Map(good.map(({ entry, value }) => [entry.path, value]))
  const values = entries.map((entry) => ({
    entry,
    value: validValues.has(entry.path) ? validValues.get(entry.path) : entry.setting.fallback?.value,
  }))
  try {
    const reportedPaths = new Set(problems.map(({ path }) => path))
    return checkProblems(input, buildConfig(values) as ConfigOf<S>).filter(({ path }) => !reportedPaths.has(path))
  } catch {
    return []
  }
}

export type ConfigChange = { key: string; oldValue: unknown; newValue: unknown; hot: boolean }

/** Changes that a reload would make, in the order of the table; secrets as ***. */
export function diffConfig<T>(before: LoadedConfig<T>, after: LoadedConfig<T>): ConfigChange[] {
  const changed = [...after.flat].filter(([path, value]) => !isSame(before.flat.get(path), value))
  return changed.map(([key, value]) => ({
    key,
    oldValue: maskSecrets(before.flat.get(key)),
    newValue: maskSecrets(value),
    hot: after.hot.has(key),
  }))
}

async function readFileSource(
  table: Section,
  file: string | null,
  ignored: readonly string[],
  onRead: OnRead | undefined,
): Promise<SourceValues> {
  if (file === null) return { given: [], problems: [] }
  const read = await readConfigFile(file, onRead)
  if (read.ok) return readTree(table, read.value, file, ignored)
  return { given: [], problems: [{ path: file, where: '', problem: read.problem }] }
}

function isFor(entry: SettingEntry): (given: GivenValue) => boolean {
  return (given) => given.entry.path === entry.path
}

/** Frozen, because all parts of a program share it. */
function buildConfig(values: readonly { entry: SettingEntry; value: unknown }[]): unknown {
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

function maskSecrets(value: unknown): unknown {
  if (value instanceof Secret) return mask
  return Array.isArray(value) ? value.map(maskSecrets) : value
}
