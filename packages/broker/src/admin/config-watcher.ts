// Watches the configuration file and reloads it after a change. The directory is watched, because a ConfigMap is replaced by renaming a
// symbolic link beside the file. Further events restart the wait, so that a file that is being written is read once.
import { watch } from 'node:fs'
import { basename, dirname } from 'node:path'
import { ApiError } from '@brokkr/contract/errors.ts'
import { backoffDelayMs } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { readFingerprint } from '@brokkr/runtime/config/read-config-file.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'

export interface ConfigWatcher {
  close(): void
}

export async function watchConfigFile(
  { clock, log }: { readonly clock: Clock; readonly log: Log },
  { file, debounceMs, onChange }: { readonly file: string; readonly debounceMs: number; readonly onChange: () => Promise<unknown> },
): Promise<ConfigWatcher> {
  let fingerprint = await readFingerprint(file)
  let timer: { cancel(): void } | null = null
  let failures = 0
  let isClosed = false
  /** An invalid file waits for its next change; any other failure, such as a database that is away, is retried. */
  const check = async (): Promise<void> => {
    const latest = await readFingerprint(file)
    if (latest === fingerprint) return
    try {
      await onChange()
    } catch (error) {
      const isInvalid = error instanceof ApiError && error.code === 'config_invalid'
      if (!isInvalid) throw error
      log.warn('changed configuration not applied', { file: basename(file), error })
    }
    fingerprint = latest
    failures = 0
  }
  const schedule = (delayMs: number): void => {
    timer?.cancel()
    if (isClosed) return
    timer = clock.setTimer(delayMs, () => {
      check().catch((error: unknown) => {
        log.warn('changed configuration not applied, will retry', { file: basename(file), error: error as Error })
        schedule(backoffDelayMs({ baseMs: 1_000, maxMs: 60_000, jitter: 'equal' }, failures++))
      })
    })
  }
  const onEvent = (): void => schedule(debounceMs)
  const watcher = watch(dirname(file), onEvent)
  watcher.on('error', (error) => log.warn('configuration watcher ended; reload by POST /api/v1/admin/config/reload', { error }))
  return {
    close: () => {
      isClosed = true
      timer?.cancel()
      watcher.close()
    },
  }
}
