// The settings as they are at each moment. Those marked hot follow their file while the agent runs; a cold one that was changed is
// named once, and waits for a restart. Whoever reads a hot one keeps the view and reads it anew each time.
import { isDeepStrictEqual } from 'node:util'
import { type Entry, listSettings } from '@brokkr/runtime/config-table.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { type AgentConfig, agentTable } from './config.ts'

export interface LiveSettings {
  /** Reads as the settings are when it is read. */
  readonly view: AgentConfig
  /** What a later look at the sources has found; complete and checked. */
  take(found: AgentConfig): void
  /** Called after hot settings have changed, with their paths. */
  onChange(listener: (paths: ReadonlySet<string>) => void): void
}

// The key is swapped by whoever holds it, and a token to join with is used once.
const entries = listSettings(agentTable).filter(({ setting }) => setting.secret === 'no')

export function liveSettings(deps: { log: Log }, first: AgentConfig): LiveSettings {
  const listeners = new Set<(paths: ReadonlySet<string>) => void>()
  let current = first
  let toldCold = ''
  let taken = first
  const view = { agent: viewOf(() => current.agent), log: viewOf(() => current.log) }
  return {
    view,
    take(found) {
      if (found === taken) return
      taken = found
      const changed = entries.filter((entry) => !isDeepStrictEqual(valueOf(current, entry), valueOf(found, entry)))
      const cold = changed.filter(({ setting }) => !setting.hot).map(({ path }) => path)
      if (cold.length > 0 && cold.join() !== toldCold) deps.log.warn('changed settings wait for a restart', { keys: cold })
      toldCold = cold.join()
      const hot = changed.filter(({ setting }) => setting.hot)
      if (hot.length === 0) return
      current = withValues(current, found, hot)
      const paths = hot.map(({ path }) => path)
      deps.log.info('settings changed', { keys: paths })
      for (const listener of listeners) listener(new Set(paths))
    },
    onChange: (listener) => void listeners.add(listener),
  }
}

type Values = Readonly<Record<string, unknown>>

const sectionOf = (config: AgentConfig, { keys }: Entry): Values => config[keys[0] as keyof AgentConfig]
const valueOf = (config: AgentConfig, entry: Entry): unknown => sectionOf(config, entry)[entry.keys[1] ?? '']

function withValues(before: AgentConfig, found: AgentConfig, hot: readonly Entry[]): AgentConfig {
  const changed = (section: string) =>
    Object.fromEntries(hot.filter(({ keys }) => keys[0] === section).map((entry) => [entry.keys[1], valueOf(found, entry)]))
  return { agent: { ...before.agent, ...changed('agent') }, log: { ...before.log, ...changed('log') } }
}

function viewOf<T extends Values>(read: () => T): T {
  const getters = Object.keys(read()).map((key) => [key, { enumerable: true, get: () => read()[key] }] as const)
  return Object.defineProperties({}, Object.fromEntries(getters)) as T
}
