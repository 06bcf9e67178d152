import type { AgentId, DeploymentObjectId } from '@brokkr/contract/wire.ts'
import { silentLog } from '@brokkr/runtime/logging/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { manualClock } from '@brokkr/testing/clock.ts'
import { expect, test } from 'vitest'
import { cacheManifest } from '../desired-state/cached-manifest.ts'
import { agentMetrics } from '../metrics.ts'
import { toProblemOutcome } from '../reconcile/outcome.ts'
import type { FailedCode } from '../reconcile/problem.ts'
import { stackId } from '../test-parts/frames.ts'
import { Outbox } from './outbox.ts'
import { type ActiveAction, StackReporter } from './stack-reporter.ts'

function setup() {
  const clock = manualClock()
  const outbox = new Outbox({ metrics: agentMetrics(createMetrics()) })
  const teller = new StackReporter({ outbox, clock, log: silentLog, agentId: 'agent' as AgentId })
  const fails = (rev: number, code: FailedCode, message: string) => {
    const id = `object-${rev}` as DeploymentObjectId
    const object = cacheManifest({ id, sequenceId: rev, isDeletionMarker: false }, 'a: 1')
    const stack = { stackId: stackId(1), rev, drift: 'heal', digestEntry: null }
    const level = { do: 'run', stack, object, isHeld: false } as unknown as ActiveAction
    const turn = teller.reportOutcome(stackId(1), level, toProblemOutcome({ phase: 'failed', code, message }), {
      tookMs: 1,
      conflict: null,
    })
    if (turn.next === 'retry') turn.onScheduled(1_000)
  }
  return { clock, teller, fails, told: () => outbox.allEvents().map(({ error_code, sequence_id }) => `${error_code} ${sequence_id}`) }
}

test('[A28] an outage is reported once per stack, with any error of its attempts', () => {
  const { teller, fails, told } = setup()
  fails(1, 'unavailable', 'ECONNREFUSED')
  teller.resetFailures(stackId(1))
  fails(2, 'unavailable', 'no answer within 30000 ms')
  fails(2, 'timeout', 'the attempt took longer than 900 s')
  // The API server is starting: its caches are empty for a moment.
  fails(2, 'forbidden', 'cannot get resource "secrets"')
  fails(2, 'missing_kind', 'the API server does not serve this kind')
  fails(2, 'unavailable', 'HTTP 503')
  expect(told()).toEqual(['unavailable 1'])
})

test('a failure after an outage is reported once two attempts in a row end with it', () => {
  const { fails, told } = setup()
  fails(1, 'unavailable', 'ECONNREFUSED')
  fails(1, 'forbidden', 'cannot patch resource')
  expect(told()).toEqual(['unavailable 1'])
  fails(1, 'forbidden', 'cannot patch resource')
  fails(1, 'forbidden', 'cannot patch resource')
  fails(1, 'invalid', 'spec.replicas')
  expect(told()).toEqual(['unavailable 1', 'forbidden 1', 'invalid 1'])
})

test('an outage that lasts is reported again after an hour', async () => {
  const { clock, fails, told } = setup()
  fails(1, 'unavailable', 'ECONNREFUSED')
  await clock.advance(3_599_000)
  fails(1, 'timeout', 'the attempt took longer than 900 s')
  await clock.advance(1_000)
  fails(1, 'unavailable', 'ECONNREFUSED')
  expect(told()).toEqual(['unavailable 1', 'unavailable 1'])
})
