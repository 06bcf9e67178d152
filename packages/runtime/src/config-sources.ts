// Where settings come from: a file, the environment, flags. Each source becomes a list of what it gives to which setting, and
// of what nobody knows in it; nothing is checked here but names.
import { didYouMean, type Problem } from './config-error.ts'
import { canonical, type Entry, environmentPrefix, isSetting, listSettings, type Section } from './config-table.ts'

export type Source = 'default' | 'file' | 'env' | 'flag'
export type Given = {
  entry: Entry
  source: Exclude<Source, 'default'>
  /** For messages: `env BROKKR__SERVER__PORT`. */
  where: string
  value: unknown
  /** The value names a file that holds the secret. */
  isFileName: boolean
  /** By one of the setting's other names. */
  isAlias: boolean
}
export type Found = { given: Given[]; problems: Problem[] }
export type Environment = Readonly<Record<string, string | undefined>>

/** The weaker, other names of a setting (`DATABASE_URL`) come first, BROKKR__SECTION__KEY after them. */
export function fromEnvironment(table: Section, env: Environment, ignoredSections: readonly string[]): Found {
  const entries = listSettings(table)
  const names = Object.keys(env).filter((name) => name.startsWith(environmentPrefix) && env[name] !== undefined)
  const found = names.map((name) => {
    const path = name.slice(environmentPrefix.length).split('__').join('.').toLowerCase()
    return byPath(entries, path, { source: 'env', where: `env ${name}`, value: env[name] }, ignoredSections)
  })
  return merge([{ given: aliasesIn(entries, env), problems: [] }, ...found])
}

function aliasesIn(entries: readonly Entry[], env: Environment): Given[] {
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

/** Keys are paths such as `server.port`; undefined is "not given". */
export function fromFlags(table: Section, flags: Readonly<Record<string, unknown>>): Found {
  const entries = listSettings(table)
  const present = Object.entries(flags).filter(([, value]) => value !== undefined)
  return merge(present.map(([path, value]) => byPath(entries, path, { source: 'flag', where: `flag ${path}`, value }, [])))
}

/** Follows the file's tables along the declared ones, so that a setting may itself hold a table. */
export function fromTree(table: Section, tree: unknown, file: string, ignoredSections: readonly string[]): Found {
  const where = `file ${file}`
  const ignored = new Set(ignoredSections.map(canonical))
  const walk = (section: Section, node: unknown, outer: readonly string[]): Found => {
    if (!isRecord(node)) return problem(outer.join('.') || '(the whole file)', where, 'is not a table of keys')
    return merge(
      Object.entries(node).map(([key, value]) =>
        outer.length === 0 && ignored.has(canonical(key)) ? nothing : step(section, key, value, outer),
      ),
    )
  }
  const step = (section: Section, key: string, value: unknown, outer: readonly string[]): Found => {
    const path = [...outer, key].join('.')
    const name = Object.keys(section).find((declared) => canonical(declared) === canonical(key))
    const child = name === undefined ? undefined : section[name]
    if (child && !isSetting(child)) return walk(child, value, [...outer, key])
    return byPath(listSettings(table), path, { source: 'file', where, value }, [])
  }
  return walk(table, tree, [])
}

function byPath(
  entries: readonly Entry[],
  path: string,
  given: Pick<Given, 'source' | 'where' | 'value'>,
  ignoredSections: readonly string[],
): Found {
  const name = canonical(path)
  if (ignoredSections.some((section) => name.startsWith(`${canonical(section)}.`))) return nothing
  const direct = entries.find((entry) => canonical(entry.path) === name)
  if (direct) return { given: [{ entry: direct, isFileName: false, isAlias: false, ...given }], problems: [] }
  const stem = name.endsWith('file')
    ? entries.find((entry) => entry.setting.secret !== 'no' && `${canonical(entry.path)}file` === name)
    : undefined
  if (stem) return { given: [{ entry: stem, isFileName: true, isAlias: false, ...given }], problems: [] }
  return problem(path, given.where, `is not a known key${didYouMean(path, knownNames(entries))}`)
}

function knownNames(entries: readonly Entry[]): string[] {
  const sections = entries.map(({ path }) => path.slice(0, path.lastIndexOf('.')))
  return [...entries.flatMap(({ path, setting }) => (setting.secret === 'no' ? [path] : [path, `${path}_file`])), ...new Set(sections)]
}

function problem(path: string, where: string, text: string): Found {
  return { given: [], problems: [{ path, where, problem: text }] }
}

const nothing: Found = { given: [], problems: [] }

export function merge(found: readonly Found[]): Found {
  return { given: found.flatMap((part) => part.given), problems: found.flatMap((part) => part.problems) }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Date)
}
