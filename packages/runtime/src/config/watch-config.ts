// Reloads settings repeatedly while a program runs, and parses them only if a file has changed.
import { type ConfigInput, type LoadedConfig, loadConfig } from './load-config.ts'
import { readFingerprint } from './read-config-file.ts'
import type { ConfigOf, Section } from './settings.ts'

/** The settings as they are whenever it is called: read again only where a file has changed, and the same value until then. */
export function watchConfig<S extends Section>(input: ConfigInput<S>): () => Promise<LoadedConfig<ConfigOf<S>>> {
  let last: { readonly loaded: LoadedConfig<ConfigOf<S>>; readonly prints: ReadonlyMap<string, string> } | null = null
  return async () => {
    if (last !== null && (await areFilesUnchanged(last.prints))) return last.loaded
    const prints = new Map<string, string>()
    const loaded = await loadConfig({ ...input, onRead: (path, print) => void prints.set(path, print) })
    last = { loaded, prints }
    return loaded
  }
}

async function areFilesUnchanged(prints: ReadonlyMap<string, string>): Promise<boolean> {
  for (const [path, print] of prints) if ((await readFingerprint(path)) !== print) return false
  return true
}
