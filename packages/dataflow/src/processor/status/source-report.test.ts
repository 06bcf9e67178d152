// What a source reports besides its messages, as the flow's progress and metrics show it.
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { observedStatus } from '../../operator/status/observed-status.ts'
import { scriptedFlow } from '../test-parts/scripted-flow.ts'

const about = { pod: 'p', version: '1' }

test('a source condition is a condition of the flow until the source removes it', async () => {
  const { source, pipeline, done } = scriptedFlow()
  source.context!.condition('OverlapNarrowed', 'too many rows')
  const first = observedStatus({ conditions: [] }, [pipeline.progress(about)], 1_000)
  expect(first.conditions).toContainEqual(expect.objectContaining({ type: 'OverlapNarrowed', status: 'True', message: 'too many rows' }))
  source.context!.condition('OverlapNarrowed', undefined)
  const next = observedStatus(first, [pipeline.progress(about)], 2_000)
  expect(next.conditions.map(({ type }) => type)).not.toContain('OverlapNarrowed')
  source.end()
  await done
})

test('the retained-bytes metric shows retained WAL, not lag', async () => {
  const { source, pipeline, metrics, done } = scriptedFlow({}, { isBounded: false })
  source.lag = () => Promise.resolve({ bytes: 5, retainedBytes: 900 })
  const text = await waitFor('the figure', async () => {
    const all = await metrics.text()
    return /dataflow_cdc_slot_retained_bytes\{[^}]*\} [1-9]/.test(all) ? all : undefined
  })
  expect(text).toMatch(/dataflow_cdc_slot_retained_bytes\{[^}]*\} 900/)
  expect(pipeline.progress(about).lag).toEqual({ bytes: 5 })
  pipeline.stop()
  await done
})
