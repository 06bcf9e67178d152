// Settings that change while a program runs. All parts of the program share one object; a reload changes its hot settings in one step, and
// settings that need a restart keep the value of the start.
import { type ConfigChange, diffConfig, type LoadedConfig } from './load-config.ts'

export interface LiveConfig<T> {
  /** The same object for the whole life of the program; its sections may be kept too. */
  readonly value: T
  /** Values in effect with their sources. */
  current(): LoadedConfig<T>
  /** What `apply` would change, in the order of the table; settings that need a restart are listed with `hot: false`. */
  compare(next: LoadedConfig<T>): ConfigChange[]
  apply(next: LoadedConfig<T>): void
}

export function createLiveConfig<T>(loaded: LoadedConfig<T>): LiveConfig<T> {
  const value = copySections(loaded.value) as T
  const flat = new Map(loaded.flat)
  const sources = new Map(loaded.sources)
  const current = (): LoadedConfig<T> => ({ ...loaded, value, flat, sources })
  return {
    value,
    current,
    compare: (next) => diffConfig(current(), next),
    apply: (next) => {
      for (const { key, hot } of diffConfig(current(), next)) {
        if (!hot) continue
        const setting = next.flat.get(key)
        setByPath(value as Section, key.split('.'), setting)
        flat.set(key, setting)
        sources.set(key, next.sources.get(key) ?? 'default')
      }
    },
  }
}

interface Section {
  [key: string]: unknown
}

/** Sections are copied, values are shared. */
function copySections(value: unknown): unknown {
  if (!isSection(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, copySections(entry)]))
}

const isSection = (value: unknown): value is Section =>
  typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype

function setByPath(root: Section, [key = '', ...rest]: readonly string[], value: unknown): void {
  if (rest.length === 0) root[key] = value
  else setByPath(root[key] as Section, rest, value)
}
