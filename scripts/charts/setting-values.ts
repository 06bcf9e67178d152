// Settings of a program as values of its chart: the file in a ConfigMap without secrets, and the secrets as keys of a Secret. Pure.
import { describeEnvironment, describeSettings, type SettingDescription } from '@brokkr/runtime/config/describe-settings.ts'
import type { EnvironmentTable } from '@brokkr/runtime/config/environment-settings.ts'
import { listSettings, type Section, type Setting, type SettingEntry } from '@brokkr/runtime/config/settings.ts'
import { z } from 'zod'
import { shaped, type Value, type Values } from './values.ts'

type Tree = { [key: string]: Tree | object }

/** `config` of a chart: every setting but secrets and those that the chart sets itself. An unknown key is refused. */
export function buildConfigValue(table: Section, managed: readonly string[], fallback: object = {}): Value {
  const entries = listSettings(table).filter(({ path, setting }) => setting.secret === 'no' && !managed.includes(path))
  return shaped(
    'Settings of the program, as in its configuration file. Secrets have no place here: see existingSecret.',
    toTree(entries),
    fallback,
    ['All settings with their defaults:', ...describe(describeSettings(table), new Set(entries.map(({ path }) => path)))],
  )
}

/** One part of the settings under a name of its own, such as the local policy of an agent. */
export function buildSectionValue(table: Section, paths: readonly string[], description: string): Value {
  const entries = listSettings(table).filter(({ path }) => paths.includes(path))
  const properties = Object.fromEntries(entries.map(({ keys, setting }) => [keys.at(-1)!, toSchema(setting)]))
  const notes = describe(describeSettings(table), new Set(paths)).map((line) => line.replace(/^- \w+\./, '- '))
  return shaped(description, { type: 'object', additionalProperties: false, properties }, {}, ['Settings with their defaults:', ...notes])
}

export const listSecretPaths = (table: Section): string[] =>
  listSettings(table).flatMap(({ path, setting }) => (setting.secret === 'no' ? [] : [path]))

/** Where secrets come from: keys of a Secret are the paths of the settings. */
export function buildSecretValues(table: Section, defaultKeys: readonly string[]): Values {
  const paths = listSecretPaths(table)
  const properties = Object.fromEntries(paths.map((path) => [path, { type: 'string', minLength: 1 }]))
  return {
    existingSecret: shaped(
      'Secret with the secret settings, one key per setting, named as the setting. Its keys are mounted as files.',
      { type: 'string' },
      '',
      [`Settings: ${paths.join(', ')}.`],
    ),
    secretKeys: shaped(
      'Keys of existingSecret that the program uses.',
      { type: 'array', uniqueItems: true, items: { enum: paths } },
      defaultKeys,
    ),
    secretValues: shaped(
      'Secret settings by value, for trials: the chart creates a Secret with them. Not together with existingSecret.',
      { type: 'object', additionalProperties: false, properties },
      {},
    ),
  }
}

/** `config` of a program whose settings are environment variables. */
export function buildEnvironmentValue(table: EnvironmentTable, managed: readonly string[]): Value {
  const names = Object.keys(table).filter((name) => !managed.includes(name))
  const properties = Object.fromEntries(names.map((name) => [name, toSchema(table[name]!)]))
  return shaped('Settings of the program, as environment variables.', { type: 'object', additionalProperties: false, properties }, {}, [
    'All settings with their defaults:',
    ...describe(describeEnvironment(table), new Set(names)),
  ])
}

function describe(settings: readonly SettingDescription[], wanted: ReadonlySet<string>): string[] {
  return settings
    .filter(({ path, env }) => wanted.has(path ?? env[0]!))
    .map(({ path, env, default: fallback, description }) => `- ${path ?? env[0]} (${fallback}): ${description}`)
}

function toTree(entries: readonly SettingEntry[]): Tree {
  const root: Tree = emptySection()
  for (const { path, setting } of entries) {
    const keys = path.split('.')
    const section = keys.slice(0, -1).reduce<Tree>((at, key) => ((at['properties'] as Tree)[key] ??= emptySection()) as Tree, root)
    ;(section['properties'] as Tree)[keys.at(-1)!] = toSchema(setting)
  }
  return root
}

const emptySection = (): Tree => ({ type: 'object', additionalProperties: false, properties: {} }) as unknown as Tree

/** Numbers as JSON has them; formats and units are for people. */
function toSchema(setting: Setting<unknown>): object {
  const { $schema: _, ...schema } = z.toJSONSchema(setting.schema, { io: 'input', unrepresentable: 'any' })
  return { ...withoutUnits(schema), description: setting.description }
}

function withoutUnits(schema: object): object {
  return JSON.parse(JSON.stringify(schema, (key, entry: unknown) => (key === 'unit' ? undefined : entry))) as object
}
