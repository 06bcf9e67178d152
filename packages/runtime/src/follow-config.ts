// Settings that are looked at again and again while a program runs. Most looks find the files as they were, and then nothing of them is
// read into settings anew.
import { type ConfigInput, type LoadedConfig, loadConfig } from './config.ts'
import { printOfFile } from './config-file.ts'
import type { ConfigOf, Section } from './config-table.ts'

/** The settings as they are whenever it is called: read again only where a file has changed, and the same value until then. */
export function followConfig<S extends Section>(input: ConfigInput<S>): () => Promise<LoadedConfig<ConfigOf<S>>> {
  let last: { readonly loaded: LoadedConfig<ConfigOf<S>>; readonly prints: ReadonlyMap<string, string> } | null = null
  return async () => {
    if (last !== null && (await areAsBefore(last.prints))) return last.loaded
    const prints = new Map<string, string>()
    const loaded = await loadConfig({ ...input, onRead: (path, print) => void prints.set(path, print) })
    last = { loaded, prints }
    return loaded
  }
}

async function areAsBefore(prints: ReadonlyMap<string, string>): Promise<boolean> {
  for (const [path, print] of prints) if ((await printOfFile(path)) !== print) return false
  return true
}
