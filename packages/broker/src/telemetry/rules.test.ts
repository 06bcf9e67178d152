import type { NewK8sEvent, PodLogLine } from '@brokkr/contract/telemetry/telemetry.ts'
import type { AgentId, StackId } from '@brokkr/contract/wire.ts'
import { expect, test } from 'vitest'
import { acceptItem, cutText, lineBytesMax, toRetentionInfo, toWireTime } from './rules.ts'

const agent_id = '00000000-0000-4000-8000-000000000001' as AgentId
const stack_id = '00000000-0000-4000-8000-000000000002' as StackId
const line = (more: Partial<PodLogLine> = {}) =>
  ({
    is: 'pod_log_line',
    body: { agent_id, stack_id, namespace: 'n', pod: 'p', container: 'c', ts: '2026-01-02T03:04:06.123456789Z', line: 'hello', ...more },
  }) as const
const event = (more: Partial<NewK8sEvent> = {}) =>
  ({
    is: 'k8s_event',
    body: {
      agent_id,
      stack_id,
      observed_at: '2026-01-02T03:04:05.5Z',
      reason: 'Started',
      message: 'm',
      event_type: 'Normal',
      involved_object: { api_version: 'v1', kind: 'Pod', name: 'p' },
      ...more,
    },
  }) as const

test.each<[string, string | null]>([
  ['2026-01-02T03:04:05Z', '2026-01-02T03:04:05.000000Z'],
  ['2026-01-02T03:04:05.5Z', '2026-01-02T03:04:05.500000Z'],
  ['2026-01-02T03:04:06.123456789Z', '2026-01-02T03:04:06.123456Z'],
  ['2026-01-02T03:04:06.1234567+02:00', '2026-01-02T01:04:06.123456Z'],
  ['1969-12-31T23:59:59Z', null],
  ['2026-13-02T03:04:05Z', null],
  ['yesterday', null],
  ['', null],
])('the time %j is written as %j', (text, expected) => {
  expect(toWireTime(text)).toBe(expected)
})

test('a text is cut at 16 KiB of UTF-8 between two characters', () => {
  expect(cutText('short')).toBe('short')
  const cut = cutText('é'.repeat(lineBytesMax))
  expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(lineBytesMax)
  expect(cut).toMatch(/^é+…\[cut\]$/)
  expect(cutText('a\0b\ud800')).toBe('a\uFFFDb\uFFFD')
})

test('an accepted event has every field that may be null', () => {
  expect(acceptItem(agent_id, event())?.body).toMatchObject({
    observed_at: '2026-01-02T03:04:05.500000Z',
    source: null,
    involved_object: { api_version: 'v1', kind: 'Pod', namespace: null, name: 'p', uid: null },
  })
})

test.each([
  ['of another agent', line({ agent_id: stack_id as unknown as AgentId })],
  ['with a pod name that is too long', line({ pod: 'p'.repeat(254) })],
  ['without a valid time', line({ ts: '2026-02-30T99:00:00Z' })],
  ['with a NUL in a name', line({ namespace: 'a\0' })],
  ['of an event with a reason that is too long', event({ reason: 'r'.repeat(254) })],
  ['of an event without a valid time', event({ observed_at: 'now' })],
])('an item %s is refused', (_, item) => {
  expect(acceptItem(agent_id, item)).toBeNull()
})

test('the oldest time is that of the last row, and the hint names a sink', () => {
  const rows = [{ created_at: '2026-01-02T03:04:06.000000Z' }, { created_at: '2026-01-02T03:04:05.000000Z' }]
  expect(toRetentionInfo(600, rows)).toMatchObject({
    retention_ceiling_seconds: 21_600,
    effective_retention_seconds: 600,
    oldest_available_ts: '2026-01-02T03:04:05.000000Z',
    long_term_sink_hint: expect.stringContaining('Datadog') as string,
  })
  expect(toRetentionInfo(600, []).oldest_available_ts).toBeNull()
})
