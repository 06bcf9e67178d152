import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { runTool } from './run-tool.ts'
import { tempDir } from './test-parts/temp-dir.ts'

test('the output of this run comes back, not that of an earlier one in the same file', async () => {
  const run = setup()
  await run('console.log("first")')
  expect(await run('console.log("second"); console.error("third")')).toBe('second\nthird\n')
})

test('lines are told while the program runs, whole and in order', async () => {
  const lines: string[] = []
  const run = setup()
  // Ends only after its first line was seen: the test hangs if lines come at the end alone.
  const code = `process.stdout.write('one\\ntw'); const t = setInterval(() => { if (require('fs').existsSync('seen')) { clearInterval(t); console.log('o') } }, 20)`
  const dir = tempDir()
  await run(code, {
    cwd: dir,
    onLine: (line) => {
      lines.push(line)
      if (line === 'one') process.getBuiltinModule('fs').writeFileSync(join(dir, 'seen'), '')
    },
  })
  expect(lines).toEqual(['one', 'two'])
})

test('a program that fails is told with its exit and its last lines', async () => {
  await expect(setup()('console.log("why it failed"); process.exit(7)')).rejects.toThrow('it ended with 7:\nwhy it failed')
})

test('a program that does not end in time is ended and says so', async () => {
  await expect(setup()('console.log("busy"); setInterval(() => {}, 1000)', { timeoutMs: 1000 })).rejects.toThrow(
    'it did not end within 1 s:\nbusy',
  )
})

test('a wish to stop ends the program', async () => {
  const stop = new AbortController()
  const dir = tempDir()
  const running = setup()('console.log("up"); setInterval(() => {}, 1000)', { cwd: dir, signal: stop.signal, onLine: () => stop.abort() })
  await expect(running).rejects.toMatchObject({ name: 'AbortError' })
  expect(existsSync(dir)).toBe(true)
})

type Extra = Partial<Parameters<typeof runTool>[0]>

function setup() {
  const cwd = tempDir()
  return (code: string, extra: Extra = {}) =>
    runTool({ name: 'it', command: process.execPath, args: ['-e', code], cwd, logFile: join(cwd, 'it.log'), timeoutMs: 20_000, ...extra })
}
