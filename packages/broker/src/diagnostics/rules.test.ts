import { expect, test } from 'vitest'
import { acceptingStatuses, type DiagnosticInput, diagnosticStatuses, nextDiagnosticStatus } from './rules.ts'

/** Every pair that changes something, typed out; each other pair is refused. */
const changes: Readonly<Record<string, string>> = {
  'pending claim': 'claimed',
  'pending expire': 'expired',
  'claimed complete': 'completed',
  'claimed expire': 'failed',
}
const inputs = Object.keys(nextDiagnosticStatus.pending) as DiagnosticInput[]
const pairs = diagnosticStatuses.flatMap((status) => inputs.map((input) => [status, input] as const))

test.each(pairs)('a %s request answers input %s as the list says', (status, input) => {
  expect(nextDiagnosticStatus[status][input]).toBe(changes[`${status} ${input}`] ?? 'refuse')
})

test('statements accept the statuses of the table', () => {
  expect(inputs.map(acceptingStatuses)).toEqual([`'pending'`, `'claimed'`, `'pending', 'claimed'`])
})
