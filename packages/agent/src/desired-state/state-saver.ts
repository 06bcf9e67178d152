// Writes the state file soon after a change and when the agent stops. The pause between two writes is at least ten times the duration of
// the last one, so that a large state does not keep the disk busy.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { type SavedState, writeState } from './state-file.ts'

export interface StateSaverDeps {
  readonly clock: Clock
  readonly log: Log
  readonly path: string
  readonly pak: () => string
  /** Built in one step, so that the cursor never covers a change that is missing. */
  readonly state: () => SavedState
}
export interface StateSaver {
  readonly changed: () => void
  stop(): Promise<void>
}
const pauseMs = 500
const share = 10

export function startStateSaver(deps: StateSaverDeps): StateSaver {
  let timer: { cancel(): void } | null = null
  let writing: Promise<void> = Promise.resolve()
  let apartMs = pauseMs
  let isDirty = false
  let hasFailed = false

  async function write(): Promise<void> {
    const startedMs = deps.clock.monotonicMs()
    isDirty = false
    try {
      await writeState(deps.path, deps.pak(), deps.state())
      hasFailed = false
    } catch (error) {
      if (!hasFailed) deps.log.warn('state file not written', { path: deps.path, why: errorText(error) })
      hasFailed = true
    }
    apartMs = Math.max(pauseMs, share * (deps.clock.monotonicMs() - startedMs))
  }

  async function writeAndLook(): Promise<void> {
    await write()
    if (isDirty && timer === null) timer = deps.clock.setTimer(apartMs, begin)
  }

  function begin(): void {
    timer = null
    writing = writeAndLook()
  }

  return {
    changed: () => {
      isDirty = true
      timer ??= deps.clock.setTimer(apartMs, begin)
    },
    stop: async () => {
      timer?.cancel()
      await writing
      timer?.cancel()
      if (isDirty) await write()
    },
  }
}
