// The current settings. Hot settings follow their file while the agent runs; a changed cold setting is logged once and needs a restart.
// Readers keep the view and read it on each use.
import { isDeepStrictEqual } from 'node:util'
import { listSettings, type SettingEntry } from '@brokkr/runtime/config/settings.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { type AgentConfig, agentTable } from './config.ts'

export interface LiveSettings {
  /** Returns current values on each read. */
  readonly view: AgentConfig
  /** Applies reloaded settings, which are complete and checked. */
  take(reloaded: AgentConfig): void
  /** Called with the paths of changed hot settings. */
  onChange(listener: (paths: ReadonlySet<string>) => void): void
}

// The PAK is replaced by its own watcher, and a join token is used once.
const entries = listSettings(agentTable).filter(({ setting }) => setting.secret === 'no')

export function createLiveSettings(deps: { log: Log }, first: AgentConfig): LiveSettings {
  const listeners = new Set<(paths: ReadonlySet<string>) => void>()
  let current = first
  let loggedCold = ''
  let latest = first
  const view = { agent: createView(() => current.agent), log: createView(() => current.log) }
  return {
    view,
    take(reloaded) {
      if (reloaded === latest) return
      latest = reloaded
      const changed = entries.filter((entry) => !isDeepStrictEqual(getValue(current, entry), getValue(reloaded, entry)))
      const cold = changed.filter(({ setting }) => !setting.hot).map(({ path }) => path)
      if (cold.length > 0 && cold.join() !== loggedCold) deps.log.warn('settings changed, restart needed', { keys: cold })
      loggedCold = cold.join()
      const hot = changed.filter(({ setting }) => setting.hot)
      if (hot.length === 0) return
      current = withValues(current, reloaded, hot)
      const paths = hot.map(({ path }) => path)
      deps.log.info('settings changed', { keys: paths })
      for (const listener of listeners) listener(new Set(paths))
    },
    onChange: (listener) => void listeners.add(listener),
  }
}

type Values = Readonly<Record<string, unknown>>

const getSection = (config: AgentConfig, { keys }: SettingEntry): Values => config[keys[0] as keyof AgentConfig]
const getValue = (config: AgentConfig, entry: SettingEntry): unknown => getSection(config, entry)[entry.keys[1] ?? '']

function withValues(before: AgentConfig, reloaded: AgentConfig, hot: readonly SettingEntry[]): AgentConfig {
  const changed = (section: string) =>
    Object.fromEntries(hot.filter(({ keys }) => keys[0] === section).map((entry) => [entry.keys[1], getValue(reloaded, entry)]))
  return { agent: { ...before.agent, ...changed('agent') }, log: { ...before.log, ...changed('log') } }
}

function createView<T extends Values>(read: () => T): T {
  const getters = Object.keys(read()).map((key) => [key, { enumerable: true, get: () => read()[key] }] as const)
  return Object.defineProperties({}, Object.fromEntries(getters)) as T
}
