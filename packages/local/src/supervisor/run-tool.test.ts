import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { tempDir } from '../test-parts/temp-dir.ts'
import { runTool } from './run-tool.ts'

test('runTool returns only the output of this run', async () => {
  const run = setup()
  await run('console.log("first")')
  expect(await run('console.log("second"); console.error("third")')).toBe('second\nthird\n')
})

test('onLine receives whole lines in order while the program runs', async () => {
  const lines: string[] = []
  const run = setup()
  // The program waits until its first line was reported: the test hangs if lines are reported only at the end.
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

test('the error of a failed program has its exit code and last lines', async () => {
  await expect(setup()('console.log("why it failed"); process.exit(7)')).rejects.toThrow('it ended with 7:\nwhy it failed')
})

test('a program over the time limit is stopped with an error', async () => {
  await expect(setup()('console.log("busy"); setInterval(() => {}, 1000)', { timeoutMs: 1000 })).rejects.toThrow(
    'it did not end within 1 s:\nbusy',
  )
})

test('an abort ends the program', async () => {
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
