import { expect, test } from 'vitest'
import { formatPrettyLine } from './pretty-line.ts'

const base = { time: '2026-01-02T03:04:05.678Z', level: 'info', program: 'broker', msg: 'started' }

test.each([
  ['plain fields', { port: 3000, host: '127.0.0.1', ok: true }, '03:04:05.678 INFO  broker: started port=3000 host=127.0.0.1 ok=true\n'],
  ['text with spaces', { why: 'no route' }, '03:04:05.678 INFO  broker: started why="no route"\n'],
  ['a record', { counts: { a: 1 } }, '03:04:05.678 INFO  broker: started counts={"a":1}\n'],
  [
    'an error with its cause',
    { error: { type: 'Terminal', message: 'apply', stack: 'at x', cause: { type: 'Error', message: 'refused' } } },
    '03:04:05.678 INFO  broker: started error=Terminal: apply ← Error: refused\n',
  ],
])('%s', (_what, fields, expected) => {
  expect(formatPrettyLine(JSON.stringify({ ...base, ...fields }))).toBe(expected)
})

test('control characters never reach the terminal', () => {
  const hostile = '\u001b]52;c;ZXZpbA==\u0007 \u202e \u2028 \r\n \u009b31m'
  const line = formatPrettyLine(JSON.stringify({ ...base, msg: hostile, [hostile]: hostile, record: { [hostile]: hostile } }))
  expect(line.slice(0, -1)).not.toMatch(/[\p{Cc}\u2028\u202e]/u)
  expect(line.endsWith('\n')).toBe(true)
})
