import type { StackId } from '@brokkr/contract/wire.ts'
import { silentLog } from '@brokkr/runtime/logging/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { manualClock } from '@brokkr/testing/clock.ts'
import { expect, test } from 'vitest'
import { agentMetrics } from '../../metrics.ts'
import { DriftCandidates } from './drift-candidates.ts'

const stackId = 's' as StackId
const healed = {
  phase: 'applied',
  objects: [],
  event: { id: 'e', type: 'UPDATED', at: '' },
  isNew: false,
  changes: [],
  held: null,
  warnings: [],
} as const

test('the first edit is checked at once, and one after a heal within a second', async () => {
  const clock = manualClock()
  const suspicions = new DriftCandidates({ clock, log: silentLog, metrics: agentMetrics(createMetrics()) }, () => 600_000)
  suspicions.add(stackId, ['a'])
  expect(suspicions.pauseMs(stackId)).toBe(0)
  suspicions.recordOutcome(stackId, { ...healed, drift: { changes: [], isHealed: true } }, suspicions.take(stackId))
  suspicions.add(stackId, ['b'])
  expect(suspicions.pauseMs(stackId)).toBeGreaterThan(0)
  // What is left of the second is for the healing itself.
  expect(suspicions.pauseMs(stackId)).toBeLessThanOrEqual(500)
  await clock.advance(500)
  expect(suspicions.pauseMs(stackId)).toBe(0)
})
