import { expect, test } from 'vitest'
import { checkStart, startProblems } from './start-checks.ts'
import { startChild } from './test-parts/child.ts'

test('[X17] a program started with NODE_TLS_REJECT_UNAUTHORIZED=0 exits 2 before it does anything', async () => {
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
  expect(startProblems(env)).toHaveLength(count)
})

test('nothing is written and nobody exits when all is well', () => {
  checkStart({ env: {}, stderr: { write: () => expect.fail('written') }, exit: () => expect.fail('exited') })
  expect.assertions(0)
})
