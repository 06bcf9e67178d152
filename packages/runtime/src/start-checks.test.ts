import { expect, test } from 'vitest'
import { checkStart, findStartProblems } from './start-checks.ts'
import { startChild } from './test-parts/child.ts'

test('[X17] a program with NODE_TLS_REJECT_UNAUTHORIZED=0 exits with 2 at start', async () => {
  const { code, stdout, stderr } = await startChild('start-child.ts', [], { NODE_TLS_REJECT_UNAUTHORIZED: '0' }).ended
  expect(code).toBe(2)
  expect(stdout).toBe('')
  expect(stderr).toMatch(/Not started:\n\s+NODE_TLS_REJECT_UNAUTHORIZED=0 .*Unset it/)
})

test.each([{}, { NODE_TLS_REJECT_UNAUTHORIZED: '1' }])('with %j it starts', async (env) => {
  expect(await startChild('start-child.ts', [], env as Record<string, string>).ended).toMatchObject({ code: 0, stdout: 'started\n' })
})

test.each([
  [{}, 0],
  [{ NODE_TLS_REJECT_UNAUTHORIZED: '' }, 0],
  [{ NODE_TLS_REJECT_UNAUTHORIZED: '1' }, 0],
  [{ NODE_TLS_REJECT_UNAUTHORIZED: '0' }, 1],
  [{ NODE_TLS_REJECT_UNAUTHORIZED: ' 0 ' }, 1],
])('%j has %d problems', (env, count) => {
  expect(findStartProblems(env)).toHaveLength(count)
})

test('no output and no exit without violations', () => {
  checkStart({ env: {}, stderr: { write: () => expect.fail('written') }, exit: () => expect.fail('exited') })
  expect.assertions(0)
})
