// The slow full scan: everything is looked at again, and kinds that could not be watched are tried again. It finds what a watch has
// missed.
import type { Loop } from '@brokkr/runtime/loop.ts'
import type { DriftWatch } from '../reconcile/drift.ts'
import type { Deployments } from './deployments.ts'

export const resyncLoop = (deps: {
  deployments: Pick<Deployments, 'resync'>
  drift: Pick<DriftWatch, 'refresh'>
  everyMs: Loop['everyMs']
}): Loop => ({
  name: 'resync',
  everyMs: deps.everyMs,
  run: async (signal) => {
    deps.drift.refresh()
    return { stacks: await deps.deployments.resync(signal) }
  },
})
