// Compares every member with what it should be, a few stacks at a time, so that within the interval each had its turn: what no
// watch and no list of metadata shows is found by this.
import type { StackId } from '@brokkr/contract/wire.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import type { Deployments } from './deployments.ts'

/** So many turns make one round over all stacks. */
const turns = 60

export function verifyLoop(deps: { deployments: Pick<Deployments, 'running' | 'verify'>; everyMs: () => number }): Loop {
  let round: StackId[] = []
  let share = 0
  return {
    name: 'verify',
    everyMs: () => deps.everyMs() / turns,
    run: () => {
      if (round.length === 0) {
        round = deps.deployments.running().map(({ stackId }) => stackId)
        share = Math.ceil(round.length / turns)
      }
      const taken = round.splice(0, share)
      for (const stackId of taken) deps.deployments.verify(stackId)
      return Promise.resolve({ stacks: taken.length })
    },
  }
}
