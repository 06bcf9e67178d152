// Opens the reload of the configuration: by a call, by a change of the file, and by a request that another process stored.
import { type ConfigReloader, createConfigReloader } from '../admin/actions/reload-config.ts'
import { watchConfigFile } from '../admin/config-watcher.ts'
import { systemActor } from '../audit/rules.ts'
import type { StartContext } from './context.ts'
import type { Feed } from './open-feed.ts'
import type { Store } from './open-store.ts'

export interface Reload {
  readonly reloader: ConfigReloader
}

export async function openReload(deps: StartContext & Store & Feed): Promise<Reload> {
  const { log, clock, liveConfig, watcher, feed, onClose } = deps
  const reloader = createConfigReloader({ ...deps, live: liveConfig })
  const reloadHere = () => reloader.reload({ actor: systemActor, othersToo: false })
  feed.onCredentialChange((kind) => {
    if (kind === 'config') void reloadHere().catch(() => undefined) // logged by the reloader
  })
  const { file } = liveConfig.current()
  if (file !== null && watcher.isEnabled) {
    const configWatcher = await watchConfigFile({ clock, log }, { file, debounceMs: watcher.debounceSeconds * 1000, onChange: reloadHere })
    onClose('configuration watcher', () => configWatcher.close())
  }
  return { reloader }
}
