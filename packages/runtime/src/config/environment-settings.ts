// Settings that a program reads from environment variables with names of their own, without file and sections.
import { ConfigError, type Problem } from './config-error.ts'
import { parseValue } from './parse-value.ts'
import type { ConfigOf, Setting } from './settings.ts'
import type { Environment } from './sources.ts'

/** Name of the variable → its setting. */
export type EnvironmentTable = { readonly [name: string]: Setting<unknown> }

/** An empty variable counts as unset. Throws ConfigError with every problem. */
export function readEnvironment<S extends EnvironmentTable>(table: S, env: Environment): ConfigOf<S> {
  const problems: Problem[] = []
  const values = Object.entries(table).map(([name, setting]): [string, unknown] => {
    const text = env[name]?.trim() ?? ''
    if (text === '') {
      if (setting.fallback === null) problems.push({ path: name, where: '', problem: 'is required' })
      return [name, setting.fallback?.value]
    }
    const read = parseValue(setting, text)
    if (!read.ok) problems.push({ path: name, where: '', problem: read.problem })
    return [name, read.ok ? read.value : undefined]
  })
  if (problems.length > 0) throw new ConfigError(problems)
  return Object.fromEntries(values) as ConfigOf<S>
}
