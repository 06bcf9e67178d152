// Thousands of agents that ask for everything at once leave a heap behind that is twice what their streams then need, and V8 gives it back
// only when something presses. So it is asked to, once, when the crowd is served.
import type { Clock } from '@brokkr/runtime/clock.ts'

export interface AfterCrowd {
  /** One of them has its snapshot, or has left. */
  left(): void
  stop(): void
}

/** Fewer leave nothing behind that would be worth the pause. */
const crowdSize = 1_000
/** The rest of a crowd comes within moments. */
const quietMs = 5_000

export function tidyAfterCrowd(deps: { clock: Clock; isBusy: () => boolean; tidy: () => void }): AfterCrowd {
  let count = 0
  let timer: { cancel(): void } | null = null
  const wait = (seen: number) => {
    timer = deps.clock.setTimer(quietMs, () => {
      if (deps.isBusy() || count > seen) return wait(count)
      timer = null
      count = 0
      deps.tidy()
    })
  }
  return {
    left: () => {
      count += 1
      if (count >= crowdSize && timer === null) wait(count)
    },
    stop: () => timer?.cancel(),
  }
}
