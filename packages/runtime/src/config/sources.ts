// Reads the sources of settings: file, environment, flags. Each source becomes a list of given values and of unknown names; only
// names are checked here.
import { type Problem, suggestName } from './config-error.ts'
import { canonical, environmentPrefix, isSetting, listSettings, type Section, type SettingEntry } from './settings.ts'

export type Source = 'default' | 'file' | 'env' | 'flag'
export type GivenValue = {
  entry: SettingEntry
  source: Exclude<Source, 'default'>
  /** For messages: `env BROKKR__SERVER__PORT`. */
  where: string
  value: unknown
  /** The value is the path of a file that contains the secret. */
  isFileName: boolean
  /** By one of the setting's other names. */
  isAlias: boolean
}
export type SourceValues = { given: GivenValue[]; problems: Problem[] }
export type Environment = Readonly<Record<string, string | undefined>>

/** Other names of a setting (`DATABASE_URL`) come first because they have lower precedence than BROKKR__SECTION__KEY. */
export function readEnvironmentSource(table: Section, env: Environment, ignoredSections: readonly string[]): SourceValues {
  const entries = listSettings(table)
  const names = Object.keys(env).filter((name) => name.startsWith(environmentPrefix) && env[name] !== undefined)
  const sources = names.map((name) => {
    const path = name.slice(environmentPrefix.length).split('__').join('.').toLowerCase()
    return findByPath(entries, path, { source: 'env', where: `env ${name}`, value: env[name] }, ignoredSections)
  })
  return mergeSources([{ given: listAliases(entries, env), problems: [] }, ...sources])
}

function listAliases(entries: readonly SettingEntry[], env: Environment): GivenValue[] {
  const names = entries.flatMap((entry) =>
    entry.setting.env.flatMap((name) => [
      { entry, name, isFileName: false },
      ...(entry.setting.secret === 'no' ? [] : [{ entry, name: `${name}_FILE`, isFileName: true }]),
    ]),
  )
  return names.flatMap(({ entry, name, isFileName }) => {
    const value = env[name]
    return value === undefined ? [] : [{ entry, source: 'env' as const, where: `env ${name}`, value, isFileName, isAlias: true }]
  })
}

/** Keys are paths such as `server.port`; undefined means not given. */
export function readFlags(table: Section, flags: Readonly<Record<string, unknown>>): SourceValues {
  const entries = listSettings(table)
  const present = Object.entries(flags).filter(([, value]) => value !== undefined)
  return mergeSources(present.map(([path, value]) => findByPath(entries, path, { source: 'flag', where: `flag ${path}`, value }, [])))
}

/** Walks the file along the declared sections, so that the value of a setting can itself be a table. */
export function readTree(table: Section, tree: unknown, file: string, ignoredSections: readonly string[]): SourceValues {
  const where = `file ${file}`
  const ignored = new Set(ignoredSections.map(canonical))
  const walk = (section: Section, node: unknown, outer: readonly string[]): SourceValues => {
    if (!isRecord(node)) return toProblem(outer.join('.') || '(the whole file)', where, 'is not a table of keys')
    return mergeSources(
      Object.entries(node).map(([key, value]) =>
        outer.length === 0 && ignored.has(canonical(key)) ? noValues : step(section, key, value, outer),
      ),
    )
  }
  const step = (section: Section, key: string, value: unknown, outer: readonly string[]): SourceValues => {
    const path = [...outer, key].join('.')
    const name = Object.keys(section).find((declared) => canonical(declared) === canonical(key))
    const child = name === undefined ? undefined : section[name]
    if (child && !isSetting(child)) return walk(child, value, [...outer, key])
    return findByPath(listSettings(table), path, { source: 'file', where, value }, [])
  }
  return walk(table, tree, [])
}

function findByPath(
  entries: readonly SettingEntry[],
  path: string,
  given: Pick<GivenValue, 'source' | 'where' | 'value'>,
  ignoredSections: readonly string[],
): SourceValues {
  const name = canonical(path)
  if (ignoredSections.some((section) => name.startsWith(`${canonical(section)}.`))) return noValues
  const direct = entries.find((entry) => canonical(entry.path) === name)
  if (direct) return { given: [{ entry: direct, isFileName: false, isAlias: false, ...given }], problems: [] }
  const stem = name.endsWith('file')
    ? entries.find((entry) => entry.setting.secret !== 'no' && `${canonical(entry.path)}file` === name)
    : undefined
  if (stem) return { given: [{ entry: stem, isFileName: true, isAlias: false, ...given }], problems: [] }
  return toProblem(path, given.where, `is not a known key${suggestName(path, listNames(entries))}`)
}

function listNames(entries: readonly SettingEntry[]): string[] {
  const sections = entries.map(({ path }) => path.slice(0, path.lastIndexOf('.')))
  return [...entries.flatMap(({ path, setting }) => (setting.secret === 'no' ? [path] : [path, `${path}_file`])), ...new Set(sections)]
}

function toProblem(path: string, where: string, text: string): SourceValues {
  return { given: [], problems: [{ path, where, problem: text }] }
}

const noValues: SourceValues = { given: [], problems: [] }

export function mergeSources(found: readonly SourceValues[]): SourceValues {
  return { given: found.flatMap((part) => part.given), problems: found.flatMap((part) => part.problems) }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date)
}
