import type { StackId } from '@brokkr/contract/wire.ts'
import { silentLog } from '@brokkr/runtime/logging/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { manualClock } from '@brokkr/testing/clock.ts'
import { expect, test } from 'vitest'
import type { VerifiedSnapshot } from '../../desired-state/snapshot.ts'
import { SyncState } from '../../desired-state/sync-state.ts'
import { agentMetrics } from '../../metrics.ts'
import { SnapshotRemovals } from './snapshot-removals.ts'

const stacks = Array.from({ length: 30 }, (_, n) => `stack-${n}` as StackId)
const empty = (allowRemovals: number | null, isNewEpoch = false): VerifiedSnapshot =>
  ({ listed: new Set(), removals: new Set(), allowRemovals, isNewEpoch, epoch: null, boot: null }) as unknown as VerifiedSnapshot

/** An agent that owns thirty stacks, of which the cluster tells when it is told to. */
function setup() {
  const map = new SyncState()
  const clock = manualClock()
  const asked: ((owned: ReadonlySet<string>) => void)[] = []
  const removals = new SnapshotRemovals({
    state: map,
    owned: () => new Promise((resolve) => asked.push(resolve)),
    epochRecord: { orphans: new Set(), save: () => Promise.resolve() },
    clock,
    log: silentLog,
    metrics: agentMetrics(createMetrics()),
    onDecided: () => undefined,
  })
  const answer = (which: number) => asked[which]!(new Set(stacks))
  const decisions = () => [...new Set([...map.desired.removals.values()].map(({ decision }) => decision))]
  return { removals, answer, decisions, clock }
}

test('[S13] an approval of a superseded snapshot counts once for the next one', async () => {
  const { removals, answer, decisions } = setup()
  removals.take(empty(1_000))
  removals.take(empty(null))
  answer(0)
  answer(1)
  await expect.poll(decisions).toEqual(['decided'])
})

test('[S13] an approval counts for one snapshot, and the next one is held again', async () => {
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

test('[S13] an unused approval expires after a minute or with a new epoch', async () => {
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
