// Periodic scans of all stacks. Resync finds changes that a watch missed, and starts watches of kinds that were not served before. Verify
// compares every member with its desired state and finds drift that neither a watch nor a metadata list shows.
import type { StackId } from '@brokkr/contract/wire.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import type { StackController } from '../stack-controller.ts'
import type { DriftWatch } from './drift-watch.ts'

export const resyncLoop = (deps: {
  controller: Pick<StackController, 'resync'>
  drift: Pick<DriftWatch, 'refresh'>
  everyMs: Loop['everyMs']
}): Loop => ({
  name: 'resync',
  everyMs: deps.everyMs,
  run: async (signal) => {
    deps.drift.refresh()
    return { stacks: await deps.controller.resync(signal) }
  },
})

/** Runs per pass over all stacks. */
const runsPerPass = 60

/** Scans a few stacks at a time, all of them once per interval. */
export function verifyLoop(deps: { controller: Pick<StackController, 'listApplied' | 'verify'>; everyMs: () => number }): Loop {
  let remaining: StackId[] = []
  let share = 0
  return {
    name: 'verify',
    everyMs: () => deps.everyMs() / runsPerPass,
    run: () => {
      if (remaining.length === 0) {
        remaining = deps.controller.listApplied().map(({ stackId }) => stackId)
        share = Math.ceil(remaining.length / runsPerPass)
      }
      const stackIds = remaining.splice(0, share)
      for (const stackId of stackIds) deps.controller.verify(stackId)
      return Promise.resolve({ stacks: stackIds.length })
    },
  }
}
