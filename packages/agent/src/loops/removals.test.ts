import type { StackId } from '@brokkr/contract/wire.ts'
import { silentLog } from '@brokkr/runtime/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics.ts'
import { manualClock } from '@brokkr/testing/clock.ts'
import { expect, test } from 'vitest'
import type { Verified } from '../follow/snapshot.ts'
import { WantedMap } from '../follow/wanted-map.ts'
import { agentMetrics } from '../metrics.ts'
import { Removals } from './removals.ts'

const stacks = Array.from({ length: 30 }, (_, n) => `stack-${n}` as StackId)
const empty = (allowRemovals: number | null, isNewHistory = false): Verified =>
  ({ mentioned: new Set(), dels: new Set(), allowRemovals, isNewHistory, epoch: null, boot: null }) as unknown as Verified

/** An agent that owns thirty stacks, of which the cluster tells when it is told to. */
function setup() {
  const map = new WantedMap()
  const clock = manualClock()
  const asked: ((owned: ReadonlySet<string>) => void)[] = []
  const removals = new Removals({
    map: () => map,
    owned: () => new Promise((resolve) => asked.push(resolve)),
    history: { orphans: new Set(), save: () => Promise.resolve() },
    clock,
    log: silentLog,
    metrics: agentMetrics(createMetrics()),
    onDecided: () => undefined,
  })
  const answer = (which: number) => asked[which]!(new Set(stacks))
  const decisions = () => [...new Set([...map.levels.leaving.values()].map(({ decision }) => decision))]
  return { removals, answer, decisions, clock }
}

test('[S13] an approval that came with a list which gave way to a newer one counts for that one, and once', async () => {
  const { removals, answer, decisions } = setup()
  removals.take(empty(1_000))
  removals.take(empty(null))
  answer(0)
  answer(1)
  await expect.poll(decisions).toEqual(['decided'])
})

test('[S13] an approval counts for one list: the next one is held again', async () => {
  const { removals, answer, decisions } = setup()
  removals.allow(29)
  removals.take(empty(null))
  answer(0)
  await expect.poll(decisions).toEqual(['held'])
  removals.take(empty(null))
  answer(1)
  removals.allow(30)
  removals.take(empty(null))
  answer(2)
  await expect.poll(decisions).toEqual(['decided'])
})

test('[S13] an approval that no list has used is worth nothing a minute later, nor for a list of another history', async () => {
  const late = setup()
  late.removals.allow(1_000)
  await late.clock.advance(61_000)
  late.removals.take(empty(null))
  late.answer(0)
  await expect.poll(late.decisions).toEqual(['held'])
  const restored = setup()
  restored.removals.allow(1_000)
  restored.removals.take(empty(null, true))
  restored.answer(0)
  await expect.poll(restored.decisions).toEqual(['held'])
})
